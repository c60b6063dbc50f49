// Package chart fetches Helm charts: from HTTP repositories, OCI registries and local folders, through a cache by digest.
package chart

import (
	helm "helm.sh/helm/v3/pkg/chart"
)

// Ref says which chart is wanted: either Path, or Repository with Name and Version.
type Ref struct {
	// Repository is the URL of an HTTP repository (https://…) or of a folder in an OCI registry (oci://…).
	Repository string
	// Name is the chart's name in the repository.
	Name string
	// Version is the exact version: a plan must not change because somebody published something.
	Version string
	// Path is a local folder or archive.
	Path string
	// Digest is what the archive has to have, "sha256:" and 64 hexadecimal digits; empty for any. Of a Path it is the
	// digest of its content.
	Digest string
}

// Chart is a chart that was loaded.
type Chart struct {
	*helm.Chart
	// Digest is "sha256:" and 64 hexadecimal digits: of the archive as it was downloaded, or of a local chart's content
	// (names and bytes of its files, and nothing that a copy of the folder changes).
	Digest string
}
