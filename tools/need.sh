#!/bin/sh
# Is what only the machine can give there? One line says what to install.
#
#   sh tools/need.sh python   prints a Python of 3.11 or newer that can make virtual environments
#   sh tools/need.sh java     is silent when Java 17 or newer is there
#   sh tools/need.sh node     is silent when Node.js 18 or newer and npm are there
set -u

need() {
    echo "calve needs $1" >&2
    exit 1
}

find_python() {
    found=""
    # A Python that was asked for is used or refused, never replaced.
    if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3 python3.13 python3.12 python3.11; fi
    for candidate in "$@"; do
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue
        found=$candidate
        if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    [ -z "$found" ] || need "Python's venv module for $found: install it (Debian, Ubuntu: apt install python3-venv)."
    need "Python 3.11 or newer: install it (Debian, Ubuntu: apt install python3 python3-venv), or set PYTHON to it."
}

check_java() {
    binary=${JAVA_HOME:+$JAVA_HOME/bin/}java
    version=$("$binary" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${version:-0}" -ge 17 ] ||
        need "Java 17 or newer for Spark: install it (Debian, Ubuntu: apt install openjdk-17-jre-headless), or set JAVA_HOME to it."
}

check_node() {
    version=$(node --version 2>/dev/null | sed -n 's/^v\([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge 18 ] && npm --version >/dev/null 2>&1 ||
        need "Node.js 18 or newer with npm for the tests on Azure's emulator: install it (Debian, Ubuntu: apt install nodejs npm)."
}

case ${1:-} in
    python) find_python ;;
    java) check_java ;;
    node) check_node ;;
    *) echo "usage: need.sh python|java|node" >&2; exit 2 ;;
esac
