"""Threads that read a file of symbols line by line and note each symbol's address in a dictionary of their own.

The threads come in groups: the second group starts when the first has ended, so an allocator has to give the memory of
threads that are gone to new ones. The file is /proc/kallsyms, which every Linux has, is long, and costs time in the
kernel while Python's lock is free. Where it cannot be read, as in some sandboxes, a file like it is made up; the line
that is printed says so.
"""

import argparse
import json
import random
import sys
import tempfile
import threading

KERNEL_SYMBOLS = "/proc/kallsyms"
MADE_UP_LINES = 120_000


def main():
    arguments = parse_arguments()
    if arguments.file:
        outcome = read_in_groups(arguments.file, arguments)
    elif has_lines(KERNEL_SYMBOLS):
        outcome = read_in_groups(KERNEL_SYMBOLS, arguments)
    else:
        print(f"readers: cannot read `{KERNEL_SYMBOLS}`: made up a file like it", file=sys.stderr)
        with tempfile.NamedTemporaryFile("w", suffix=".symbols") as file:
            make_up(file)
            outcome = read_in_groups(file.name, arguments) | {"file": "made up"}
    print(json.dumps(outcome))


def parse_arguments():
    parser = argparse.ArgumentParser(prog="readers", description="Reads a file of symbols on many threads.")
    parser.add_argument("--threads", type=positive, default=10, metavar="N", help="threads of all groups together")
    parser.add_argument("--groups", type=positive, default=2, metavar="N", help="groups, one after the other")
    parser.add_argument("--amount", type=positive, default=1, metavar="N", help="how often each thread reads the file")
    parser.add_argument("--file", metavar="PATH", help=f"what to read [default: {KERNEL_SYMBOLS}]")
    return parser.parse_args()


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"needs a whole number above 0, not {text}")
    return number


def has_lines(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline() != ""
    except OSError:
        return False


def make_up(file):
    """Lines as the kernel writes them: address, kind, name."""
    numbers = random.Random(1)
    for line in range(MADE_UP_LINES):
        name = "_".join(f"{numbers.randrange(16 ** 6):x}" for _ in range(numbers.randint(1, 6)))
        file.write(f"{0xFFFFFFFF81000000 + 16 * line:x} t {name}\n")
    file.flush()


def read_in_groups(path, arguments):
    """What was done. How many lines there were is left out: the kernel may gain symbols between two runs."""
    read = []
    for group in range(arguments.groups):
        size = share(arguments.threads, arguments.groups, group)
        threads = [threading.Thread(target=read_symbols, args=(path, arguments.amount, read)) for _ in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if len(read) != arguments.threads or not all(read):
        threads = sum(names > 0 for names in read)
        sys.exit(f"readers: {threads} of {arguments.threads} threads found symbols in `{path}`")
    return {"workload": "readers", "threads": arguments.threads, "groups": arguments.groups, "file": path}


def share(threads, groups, group):
    return threads // groups + (group < threads % groups)


def read_symbols(path, amount, read):
    """Appends to `read` how many names the file has: the last word of each line."""
    for _ in range(amount):
        addresses = {}
        with open(path, encoding="utf-8") as file:
            for line in file:
                if words := line.split():
                    addresses[words[-1]] = words[0]
    read.append(len(addresses))


if __name__ == "__main__":
    main()
