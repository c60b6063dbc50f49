# Named by what is in it, so that an unchanged image is not built again: 6389bdf72d50-amd64-arm64, for example.
locals {
  content = sha256(join("", [for name in sort(fileset("images/default", "**")) : filesha256("images/default/${name}")]))
  image   = "registry.example.com/team/sandbox:${provider::berth::image_tag(local.content, ["linux/arm64", "linux/amd64"])}"
}
