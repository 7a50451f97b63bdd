"""One `rigmem -j shell` that tests ask line by line: ask.py RIGMEM [ARG]...

Reads lines `EXPRESSION<tab>COMMAND LINE`, has the shell answer the command line, and prints
`STATUS<tab>TEXT`: 0 and what the Python expression over the result r makes, or the error's code and
its text. A walk that ends nowhere has status 1. Where the shell crashed at its end, or a sanitizer spoke up, that
is printed, and the status is 1."""

import json
import subprocess
import sys
import tempfile

said = tempfile.TemporaryFile("w+")
shell = subprocess.Popen([sys.argv[1], "-j"] + sys.argv[2:] + ["shell"], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=said, text=True, bufsize=1)


def answer(expression, command):
    """The status and the text for one command line."""
    shell.stdin.write(command + "\n")
    document = json.loads(shell.stdout.readline())
    if not document["ok"]:
        error = document["error"]
        texts = [error[key] for key in ("what", "why", "hint") if error[key]]
        return error["code"], ": ".join(texts)
    r = document["result"]
    if document["command"] == "walk" and r["end"] is None:
        return 1, "nothing"
    return 0, eval(expression, {"r": r, "json": json}) if expression else ""


for line in sys.stdin:
    expression, command = line.rstrip("\n").split("\t", 1)
    status, text = answer(expression, command)
    print("%d\t%s" % (status, str(text).replace("\n", " ")), flush=True)
shell.stdin.close()
status = shell.wait()
said.seek(0)
text = said.read()
if "Sanitizer" in text or "runtime error" in text or status not in range(8):
    sys.exit(text or "the shell ended with %d" % status)
