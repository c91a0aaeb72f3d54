# Debian packages, for the scripts that read this file.

say() { printf 'setup: %s\n' "$*"; }

# Waits while another installation into this checkout runs, and keeps others waiting until the script ends.
wait_for_installations() { exec 9< scripts/packages.sh; flock 9; }

# Prints the prefix that runs a command as root ("" when we are), fails when there is none.
as_root() {
    command -v apt-get > /dev/null || return 1
    if [ "$(id -u)" -eq 0 ]; then echo ""; elif sudo -n true 2> /dev/null; then echo "sudo -n"; else return 1; fi
}

# Installs Debian packages, one script at a time; returns 1, having said what to install, where that is not possible.
install_packages() {
    if root=$(as_root); then
        say "installing system packages: $*"
        flock -o scripts/setup.sh $root apt-get update -qq \
            && flock -o scripts/setup.sh $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" \
            && return 0
    fi
    say "please install as root: apt-get install $*" >&2
    return 1
}
