#!/bin/sh
# Finds the Python to make .venv with, and checks it and Java.
#
# Prints the interpreter on standard output and exits 0, or prints one sentence that says what to
# install on standard error and exits 1. PYTHON names an interpreter to use; JAVA_HOME names a Java.
set -u

fail() {
    printf '%s\n' "$1" >&2
    exit 1
}

python_version() { # "3.11" of an interpreter; nothing when it cannot run
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

is_python_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    found=""
    for candidate in ${PYTHON:-python3.11 python3 python3.12 python3.13 python}; do
        version=$(python_version "$candidate") || continue
        if is_python_new_enough "$candidate"; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
        found="$found${found:+, }$candidate is $version"
    done
    [ -n "$found" ] || found="${PYTHON:-python3} does not run"
    fail "sparklog needs Python 3.11 or newer ($found): please install Python 3.11 with its venv module."
}

check_venv_module() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "sparklog needs the venv module of $1, which is missing: please install it (on Debian: python3-venv)."
}

check_java() {
    java=java
    [ -z "${JAVA_HOME:-}" ] || java="$JAVA_HOME/bin/java"
    where="on PATH"
    [ -z "${JAVA_HOME:-}" ] || where="in JAVA_HOME=$JAVA_HOME"
    command -v "$java" >/dev/null 2>&1 ||
        fail "sparklog needs Java 17 or newer, and there is no java $where: please install a Java 17 runtime (on Debian: openjdk-17-jre-headless)."
    # 'openjdk version "17.0.15" …', or "1.8.0_292" up to Java 8.
    version=$("$java" -version 2>&1 | sed -n 's/.*version "\([^"]*\)".*/\1/p' | head -n 1)
    major=${version#1.}
    major=${major%%[!0-9]*}
    [ "${major:-0}" -ge 17 ] ||
        fail "sparklog needs Java 17 or newer, and the java $where is ${version:-of an unknown version}: please install a Java 17 runtime (on Debian: openjdk-17-jre-headless)."
}

python=$(find_python) || exit 1
check_venv_module "$python"
check_java
printf '%s\n' "$python"
