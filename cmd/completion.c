/* The completion scripts. Each asks `rigmem complete -- WORDS`, so that the command table is the
   only list of commands and options there is. */
#include "handlers.h"

#include <string.h>

static const char bash_script[] =
    "# bash completion for rigmem, as `rigmem completion bash` prints it\n"
    "_rigmem()\n"
    "{\n"
    "    local cur words cword line fixed files=\n"
    "    if declare -F _get_comp_words_by_ref >/dev/null; then\n"
    "        _get_comp_words_by_ref -n := cur words cword\n"
    "    else\n"
    "        cur=${COMP_WORDS[COMP_CWORD]} words=(\"${COMP_WORDS[@]}\") cword=$COMP_CWORD\n"
    "    fi\n"
    "    # readline replaces what follows the last : or = only\n"
    "    fixed=${cur%\"${cur##*[:=]}\"}\n"
    "    COMPREPLY=()\n"
    "    while IFS= read -r line; do\n"
    "        case $line in\n"
    "            $'\\tfile') files=1 ;;\n"
    "            *)\n"
    "                line=${line%%$'\\t'*}\n"
    "                COMPREPLY+=(\"${line#\"$fixed\"}\")\n"
    "                ;;\n"
    "        esac\n"
    "    done < <(\"${words[0]}\" complete -- \"${words[@]:1:cword}\" 2>/dev/null)\n"
    "    if [[ $files ]]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        while IFS= read -r line; do\n"
    "            COMPREPLY+=(\"$line\")\n"
    "        done < <(compgen -f -- \"${cur##*[:=]}\")\n"
    "    fi\n"
    "    # after FUNCTION: or FUNCTION= the word goes on\n"
    "    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[:=] ]]; then\n"
    "        compopt -o nospace 2>/dev/null\n"
    "    fi\n"
    "}\n"
    "complete -F _rigmem rigmem\n";

static const char zsh_script[] =
    "#compdef rigmem\n"
    "# zsh completion for rigmem, as `rigmem completion zsh` prints it\n"
    "_rigmem()\n"
    "{\n"
    "    local line files=\n"
    "    local -a found open\n"
    "    for line in \"${(@f)$(\"${words[1]}\" complete -- \"${(@)words[2,CURRENT]}\" "
    "2>/dev/null)}\"; do\n"
    "        case $line in\n"
    "            '') ;;\n"
    "            $'\\tfile') files=1 ;;\n"
    "            *[:=]$'\\t'*) open+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\") ;;\n"
    "            *) found+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\") ;;\n"
    "        esac\n"
    "    done\n"
    "    (( $#found )) && _describe -t words rigmem found\n"
    "    (( $#open )) && _describe -t words rigmem open -S ''\n"
    "    [[ -n $files ]] && _files\n"
    "}\n"
    "if [[ $funcstack[1] == _rigmem ]]; then\n"
    "    _rigmem \"$@\"\n"
    "else\n"
    "    compdef _rigmem rigmem\n"
    "fi\n";

static const char fish_script[] =
    "# fish completion for rigmem, as `rigmem completion fish` prints it\n"
    "function __rigmem_lines\n"
    "    set -l words (commandline -opc) (commandline -ct)\n"
    "    command $words[1] complete -- $words[2..-1] 2>/dev/null\n"
    "end\n"
    "function __rigmem_words\n"
    "    __rigmem_lines | string match -r '^[^\\t].*'\n"
    "end\n"
    "function __rigmem_wants_file\n"
    "    __rigmem_lines | string match -qr '^\\tfile$'\n"
    "end\n"
    "complete -c rigmem -f -a '(__rigmem_words)'\n"
    "complete -c rigmem -n __rigmem_wants_file -F\n";

void completion_run(const struct request *request, struct reply *reply)
{
    static const struct {
        const char *shell, *script;
    } rows[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};
    reply->result = json_object();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(request->argument[0], rows[i].shell) == 0) {
            put(reply, reply->result, "shell", json_string(rows[i].shell));
            put(reply, reply->result, "script", json_string(rows[i].script));
        }
    }
}

void script_text(struct view *view, const json_t *result)
{
    out_text(view->out, member_text(result, "script"));
}
