# fish completion for rigmem, as `rigmem completion fish` prints it
function __rigmem_lines
    set -l words (commandline -opc) (commandline -ct)
    command $words[1] complete -- $words[2..-1] 2>/dev/null
end
function __rigmem_words
    __rigmem_lines | string match -r '^[^\t].*'
end
function __rigmem_wants_file
    __rigmem_lines | string match -qr '^\tfile$'
end
complete -c rigmem -f -a '(__rigmem_words)'
complete -c rigmem -n __rigmem_wants_file -F
