#!/usr/bin/env bash
# Builds the programs that tests, the demo, lint and docs run, into .bin/.
#
#   tools/build.sh [NAME ...]          build what is missing or out of date (control plane, engines and tofu by default)
#   tools/build.sh kube-apiserver@v1.34.2-gke.100
#                                      the same API server, reporting another version (for version-floor tests)
#
# A program is out of date when its module files, its code in tools/, its version stamp or the Go release changed.
# BERTH_TOFU names a tofu or terraform to use instead of the one built here.
#
# It keeps to what bash 3.2 has, which is the bash of macOS.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=$root/.bin
kubernetes_version=v1.36.3
default="etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok knative-operator argocd redis kueue jobset tofu"

# The module folder below tools/ and the package of a program.
package_of() { # NAME
  case $1 in
    tofu) echo tofu github.com/opentofu/opentofu/cmd/tofu ;;
    etcd) echo etcd go.etcd.io/etcd/server/v3 ;;
    kwok) echo kwok sigs.k8s.io/kwok/cmd/kwok ;;
    knative-operator) echo knative ./operator ;; # tools/knative/operator says why it is not the module's own main
    argocd | redis) echo "$1" . ;;
    kueue | kueue-0.15) echo "$1" sigs.k8s.io/kueue/cmd/kueue ;;
    jobset) echo jobset sigs.k8s.io/jobset ;;
    kube-apiserver | kube-controller-manager | kube-scheduler | kubectl) echo kubernetes "k8s.io/kubernetes/cmd/$1" ;;
    tfplugindocs) echo tfplugindocs github.com/hashicorp/terraform-plugin-docs/cmd/tfplugindocs ;;
    golangci-lint) echo golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint ;;
    *)
      echo "tools/build.sh: unknown program \"$1\"; known: $default kueue-0.15 tfplugindocs golangci-lint" >&2
      return 2
      ;;
  esac
}

# What of a program is built from, as one line.
fingerprint() { # FOLDER LDFLAGS
  {
    cat "$root/tools/$1/go.mod" "$root/tools/$1/go.sum"
    find "$root/tools/$1" -name '*.go' -exec cat {} +
    echo "$2"
    go version
  } | cksum
}

is_current() { # PROGRAM WANT
  [[ -x $bin/$1 && $(cat "$bin/.stamps/$1" 2>/dev/null) == "$2" ]]
}

build() { # NAME[@VERSION]
  local program=$1 name=${1%%@*} version=$kubernetes_version
  if [[ $program == *@* ]]; then version=${program#*@}; fi
  local found folder pkg
  found=$(package_of "$name")
  folder=${found%% *} pkg=${found#* }
  if [[ $name == tofu && -n ${BERTH_TOFU:-} ]]; then
    echo "tofu: using $BERTH_TOFU" >&2
    return
  fi

  local ldflags="-s -w"
  if [[ $folder == kubernetes ]]; then
    local major minor stamp=k8s.io/component-base/version
    IFS=. read -r major minor _ <<<"${version#v}"
    ldflags="$ldflags -X $stamp.gitVersion=$version -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor"
  fi
  if [[ $folder == kueue* ]]; then
    # Where it puts a certificate of its own is fixed at /visibility; so it is in the working directory.
    ldflags="$ldflags -X sigs.k8s.io/kueue/pkg/visibility.certDir=visibility"
  fi
  local want
  want=$(fingerprint "$folder" "$ldflags")
  if is_current "$program" "$want"; then return; fi

  # Whoever comes second waits and finds it done. Without flock (macOS) both build, which costs time and no more, as
  # each moves a whole file into place.
  exec 9>"$bin/.stamps/.lock-$program"
  if command -v flock >/dev/null; then flock 9; fi
  if is_current "$program" "$want"; then return; fi

  echo "building $program from $pkg (minutes on a cold cache) ..." >&2
  local start=$SECONDS out=$bin/$program
  (cd "$root/tools/$folder" && CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off \
    go build -trimpath -ldflags "$ldflags" -o "$out.$$" "$pkg" 9>&-)
  mv "$out.$$" "$out"
  echo "$want" >"$bin/.stamps/$program"
  echo "built $program in $((SECONDS - start)) s" >&2
}

mkdir -p "$bin/.stamps"
# shellcheck disable=SC2086 # the default is a list of words
if [[ $# -eq 0 ]]; then set -- $default; fi
for program in "$@"; do
  build "$program"
done
