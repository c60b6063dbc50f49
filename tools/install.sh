#!/usr/bin/env bash
# Installs a built provider for this user, under the addresses by which OpenTofu and Terraform look for it.
#
#   tools/install.sh PROGRAM VERSION
#
# ~/.terraform.d/plugins is a mirror that both of them search by themselves before any registry.
set -euo pipefail

[[ $# == 2 ]] || { echo "usage: tools/install.sh PROGRAM VERSION" >&2; exit 2; }
program=$1 version=$2
platform=$(go env GOOS)_$(go env GOARCH)
for host in registry.opentofu.org registry.terraform.io; do
  folder=$HOME/.terraform.d/plugins/$host/berthdev/berth/$version/$platform
  mkdir -p "$folder"
  # Moved into place, because a running plugin's file can't be written over.
  cp "$program" "$folder/.new"
  mv "$folder/.new" "$folder/terraform-provider-berth_v$version"
  echo "installed $folder/terraform-provider-berth_v$version"
done
cat <<TEXT

Use it with:

  terraform {
    required_providers {
      berth = {
        source  = "berthdev/berth"
        version = "$version"
      }
    }
  }

A working directory that has used an earlier build of the same version remembers its checksum: delete the entry of
berthdev/berth from its .terraform.lock.hcl (or the file) and run "tofu init" again.
TEXT
