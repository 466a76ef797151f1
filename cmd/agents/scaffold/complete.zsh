#compdef agents
# Completion of agents in zsh. In ~/.zshrc, behind compinit:
#   source <(agents completion zsh)
_agents() {
	local line kind=''
	local -a values shown
	for line in "${(@f)$(agents completion candidates words "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
		if [[ -z $kind ]]; then
			kind=$line
		elif [[ $line == *$'\t'* ]]; then
			values+=("${line%%$'\t'*}")
			shown+=("${line/$'\t'/  -- }")
		else
			values+=("$line")
			shown+=("$line")
		fi
	done
	# The answer is about what stands behind the =.
	[[ $PREFIX == -*=* ]] && compset -P '*='
	case $kind in
	files) _files ;;
	folders) _files -/ ;;
	*) compadd -l -d shown -a -- values ;;
	esac
}
if [[ ${funcstack[1]} == _agents ]]; then
	_agents "$@"
else
	compdef _agents agents
fi
