#!/usr/bin/env bash
# Generates the provider's documentation from its schema, templates/ and examples/.
#
#   tools/docs.sh FOLDER     FOLDER is relative to the project's root
#
# tfplugindocs by itself downloads a Terraform to ask for the schema. It is given the schema instead, so that this
# needs no network. It looks for the provider under "registry.terraform.io/hashicorp/", so that is the address by which
# it is asked for here; dev_overrides leads that address to the program in .bin/ without an init.
# BERTH_TOFU names a tofu or terraform to use instead of the one built here.
set -euo pipefail

[[ $# == 1 ]] || { echo "usage: tools/docs.sh FOLDER" >&2; exit 2; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=$root/.bin
[[ -x $bin/terraform-provider-berth ]] ||
  { echo "tools/docs.sh: .bin/terraform-provider-berth is missing: run \"make build\" first" >&2; exit 1; }
"$root/tools/build.sh" tofu tfplugindocs

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/main.tf" <<HCL
terraform {
  required_providers {
    berth = { source = "registry.terraform.io/hashicorp/berth" }
  }
}
HCL
cat >"$work/cli.tfrc" <<HCL
provider_installation {
  dev_overrides { "registry.terraform.io/hashicorp/berth" = "$bin" }
}
HCL
(cd "$work" && CHECKPOINT_DISABLE=1 TF_CLI_CONFIG_FILE=$work/cli.tfrc \
  "${BERTH_TOFU:-$bin/tofu}" providers schema -json >schema.json)

# Only what goes wrong is worth reading: tfplugindocs narrates each file.
if ! "$bin/tfplugindocs" generate --provider-dir "$root" --provider-name berth --providers-schema "$work/schema.json" \
  --rendered-website-dir "$1" >"$work/log" 2>&1; then
  cat "$work/log" >&2
  exit 1
fi
