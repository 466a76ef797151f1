# Completion of agents in fish:
#   agents completion fish >~/.config/fish/completions/agents.fish
function __agents_complete
    set -l words (commandline -opc)
    set -e words[1]
    set -l current (commandline -ct)
    set -l lines (agents completion candidates words $words "$current" 2>/dev/null)
    # The answer is about what stands behind the =.
    set -l prefix (string match -r -- '^-[^=]*=' "$current")
    set -l rest (string replace -r -- '^-[^=]*=' '' "$current")
    switch "$lines[1]"
        case files
            set lines '' (__fish_complete_path "$rest")
        case folders
            set lines '' (__fish_complete_directories "$rest")
    end
    for line in $lines[2..]
        echo -- "$prefix$line"
    end
end
complete -c agents -f -a '(__agents_complete)'
