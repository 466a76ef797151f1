# Completion of agents in bash. In ~/.bashrc:
#   source <(agents completion bash)
_agents() {
	local line kind='' cur=${COMP_WORDS[COMP_CWORD]} prefix=''
	COMPREPLY=()
	# The answer is about what stands behind the =, and so is the word, unless = is no word break.
	if [[ $cur == -*=* ]]; then
		prefix=${cur%%=*}=
	fi
	while IFS= read -r line; do
		if [[ -z $kind ]]; then
			kind=$line
		else
			COMPREPLY+=("$prefix${line%%$'\t'*}")
		fi
	done < <(agents completion candidates line "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
	case $kind in
	files) compopt -o default ;;
	folders) compopt -o dirnames ;;
	esac
}
complete -F _agents agents
