# bash completion for rigmem, as `rigmem completion bash` prints it
_rigmem()
{
    local cur words cword line fixed files=
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n := cur words cword
    else
        cur=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
    fi
    # readline replaces what follows the last : or = only
    fixed=${cur%"${cur##*[:=]}"}
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            $'\tfile') files=1 ;;
            *)
                line=${line%%$'\t'*}
                COMPREPLY+=("${line#"$fixed"}")
                ;;
        esac
    done < <("${words[0]}" complete -- "${words[@]:1:cword}" 2>/dev/null)
    if [[ $files ]]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do
            COMPREPLY+=("$line")
        done < <(compgen -f -- "${cur##*[:=]}")
    fi
    # after FUNCTION: or FUNCTION= the word goes on
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[:=] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F _rigmem rigmem
