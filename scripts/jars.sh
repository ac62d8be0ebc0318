# shellcheck shell=bash
# Sourced by the scripts that fetch a Java program's jars for maru bench: by the coordinates of FOLDER/pom.xml, with
# Debian's Maven, into build/.NAME/jars, where they must have the checksums of FOLDER/jars.sha256.
#   jars_of NAME FOLDER     status 77 and a line "skipped: ..." where they cannot be had
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# All that is named is there as it should be, and nothing else.
good_jars() { # FOLDER SUMS
  [ -d "$1" ] && (cd "$1" && sha256sum --quiet --strict -c "$2" && [ "$(find . -name '*.jar' | wc -l)" -eq "$(wc -l <"$2")" ])
}

fetch_jars() { # POM WORK
  rm -rf "$2/fetched"
  timeout -k 10 900 mvn -B -ntp --strict-checksums -f "$1" "-Dmaven.repo.local=$2/repository" \
    org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies "-DoutputDirectory=$2/fetched" -DincludeScope=runtime
}

jars_of() {
  local name=$1 work=$build/.$1 sums=$2/jars.sha256
  ! good_jars "$work/jars" "$sums" 2>/dev/null || return 0
  if ! command -v mvn >/dev/null; then
    echo "skipped: $name: mvn is missing (Debian: apt-get install maven)"
    exit 77
  fi
  mkdir -p "$work"
  if ! (phase "$name: its jars" fetch_jars "$2/pom.xml" "$work"); then
    echo "skipped: $name: its jars could not be fetched; log: ${logs#"$root"/}/$name--its-jars.log"
    exit 77
  fi
  good_jars "$work/fetched" "$sums" || die "$name: what was fetched is not what ${sums#"$root"/} names; see $work/fetched"
  rm -rf "$work/jars" "$work/repository"
  mv "$work/fetched" "$work/jars"
}
