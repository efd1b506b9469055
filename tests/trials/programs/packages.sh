#!/bin/sh
# packages.sh PLACE DEBS HELLO: installs the packages in DEBS in place of Debian's, runs Debian's programs on them, and removes
# them again, in a root of its own: an overlay of this system, all of whose changes are in PLACE, a file system in memory. HELLO
# is a program of Debian's Open MPI. To be run in a mount namespace and a process namespace of its own.
set -eu
place=$1 debs=$2 hello=$3
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
unset LD_LIBRARY_PATH FI_PROVIDER_PATH FI_OXI_CONF

mount -t tmpfs tmpfs "$place"
mkdir "$place/changes" "$place/work" "$place/system"
mount -t overlay overlay -o "lowerdir=/,upperdir=$place/changes,workdir=$place/work" "$place/system"
mount -t proc proc "$place/system/proc"
mount --rbind /dev "$place/system/dev"
mount -t tmpfs tmpfs "$place/system/tmp"
cp "$debs"/*.deb "$hello" "$place/system/tmp"
hello=/tmp/${hello##*/}

inside() {
	chroot "$place/system" "$@"
}

# Needs no network: all that the packages need is installed.
apt() {
	inside apt-get -q -y \
		-o APT::Sandbox::User=root "$@" || { echo "apt-get $*: failed"; exit 1; }
}

says() { # TEXT COMMAND...: the command prints the text
	text=$1
	shift
	out=$(inside "$@" 2>&1) || { echo "$* failed: $out"; exit 1; }
	case $out in
	*"$text"*) echo "ok: $*" ;;
	*) echo "$* does not say $text: $out"; exit 1 ;;
	esac
}

mpi() { # PROVIDER
	says "heard of 2 ranks" env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=/tmp \
		mpirun.openmpi --oversubscribe -np 2 --mca pml cm --mca mtl ofi --mca btl self --mca osc pt2pt \
		--mca mtl_ofi_provider_include "$1" "$hello"
}

package() { # NAME: its file inside
	for file in "$debs/$1"_*.deb; do
		echo "/tmp/${file##*/}"
	done
}

status() { # PACKAGE
	inside dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || echo none
}

echo "== the library alone, under Debian's programs"
apt install "$(package liboxifabric1)"
test "$(status libfabric1)" != installed
test "$(status libfabric-bin)" = installed
says "FI_OXI_CONF" fi_info -e
says "tcp:" fi_info -l
mpi tcp

echo "== all packages"
apt install "$(package liboxifabric1)" "$(package liboxifabric1-dbgsym)" "$(package liboxifabric-dev)" \
	"$(package oxifabric-bin)" "$(package oxifabric-bin-dbgsym)" "$(package oxifabric-doc)"
test "$(status libfabric-bin)" != installed
says "oxi " oxi --version
says "provider: tcp" fi_info -p tcp
says "-lfabric" pkg-config --libs libfabric
says "/rdma/fabric.h" sh -c 'echo "#include <rdma/fabric.h>" | cc -E $(pkg-config --cflags libfabric) -'
says "libfabric.so.1" dpkg -S libfabric.so.1
says "Programming with fabrics" cat /usr/share/doc/oxifabric-doc/guide/index.html
inside dpkg --verify liboxifabric1 liboxifabric-dev oxifabric-bin oxifabric-doc
inside dpkg --audit

echo "== removed"
apt purge 'liboxifabric*' 'oxifabric*'
test "$(status liboxifabric1)" = none
left=$(find "$place/changes" ! -type c ! -path '*/var/log/*' ! -path '*/var/cache/*' \
	\( -name '*fabric*' -o -name 'fi_*' -o -name 'oxi*' \))
test -z "$left" || { echo "left: $left"; exit 1; }
echo "nothing is left"
