package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	helm "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

const (
	// maxArchive is the most that a chart's archive may have, compressed. Helm sets no limit on it; but Helm keeps a chart,
	// compressed, in a Secret, which cannot exceed 1 MiB, so twenty times that is no chart that could be installed. What a
	// chart may have uncompressed is Helm's own limit (chart/loader): 100 MiB in all and 5 MiB in one file.
	maxArchive = 20 << 20
	// maxNesting is how deep archives of subcharts may lie in each other. Our choice: an archive that contains itself has
	// no end.
	maxNesting = 10
)

var (
	// subchartPattern is a file that Helm loads as the archive of a subchart.
	subchartPattern = regexp.MustCompile(`^[^/]+/(?:charts/[^/]+/)*charts/[^/_.][^/]*\.tgz$`)
	// drivePattern is a path that is absolute on Windows.
	drivePattern = regexp.MustCompile(`^[a-zA-Z]:`)
)

// flaw is what is wrong with an archive or a folder: the rest of a summary, and the detail.
type flaw struct{ summary, detail string }

func (f flaw) Error() string { return f.summary }

// about makes a flaw, or what Helm's loader said, an error about the chart.
func (r Ref) about(err error, attribute string) error {
	found, ok := errors.AsType[flaw](err)
	switch {
	case ok:
	case strings.Contains(err.Error(), "Chart.yaml file is missing"), strings.Contains(err.Error(), "chart yaml not in base directory"): // Helm's errors have no types
		found = noChartYAML
	case strings.Contains(err.Error(), "content outside the base directory"):
		found = flaw{"its files lie in no folder", "A chart's archive holds one folder with all its files in it, as `helm package` makes it; this one has files beside it. Package it again."}
	default:
		found = flaw{"Helm cannot load it", "Helm says: " + cut(err.Error()) + ". Correct the chart, or use another version of it."}
	}
	return r.fail(attribute, found.summary, "%s", found.detail)
}

var (
	noChartYAML = flaw{"it has no Chart.yaml", "A chart is a folder with Chart.yaml in it, or an archive of such a folder, and there is none. Correct where the chart is taken from."}
	notGzip     = flaw{"it is no archive", "A chart's archive is a tar file compressed by gzip, as `helm package` makes it, and this is neither. Correct where the chart is taken from."}
)

// digestOf is the digest of an archive.
func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// verified checks an archive that was fetched for a Ref: that it has the digest that is wanted, and that it can be
// loaded.
func verified(ref Ref, data []byte) (archive, error) {
	got := archive{data: data, digest: digestOf(data)}
	if err := ref.checkDigest(got.digest); err != nil {
		return archive{}, err
	}
	if err := checkArchive(data); err != nil {
		return archive{}, ref.about(err, ref.attribute())
	}
	if _, err := got.parse(ref); err != nil {
		return archive{}, err
	}
	return got, nil
}

func (r Ref) checkDigest(got string) error {
	if r.Digest == "" || r.Digest == got {
		return nil
	}
	return r.fail("chart.digest", "its digest is another than chart.digest", "chart.digest is %s, and the chart has %s. Somebody has changed it since, or chart.digest is that of another version. Nothing was kept of it. Look at what changed; if that is what you want, set chart.digest to the latter.", r.Digest, got)
}

// parse loads the chart anew, because Helm changes a chart that it works with.
func (a archive) parse(ref Ref) (Chart, error) {
	loaded, err := loader.LoadArchive(bytes.NewReader(a.data))
	if err != nil {
		return Chart{}, ref.about(err, ref.attribute())
	}
	if err := ref.installable(loaded); err != nil {
		return Chart{}, err
	}
	return Chart{Chart: loaded, Digest: a.digest}, nil
}

// installable refuses what Helm would refuse to install: a library chart, and one whose dependencies are not in it.
func (r Ref) installable(loaded *helm.Chart) error {
	if loaded.Metadata.Type == "library" {
		return r.fail(r.attribute(), "it is a library chart", "A library chart has templates for other charts and installs nothing by itself. Use the chart that depends on it.")
	}
	var missing, local []string
	for _, dependency := range loaded.Metadata.Dependencies {
		if slices.ContainsFunc(loaded.Dependencies(), func(c *helm.Chart) bool { return c.Name() == dependency.Name }) {
			continue
		}
		missing = append(missing, dependency.Name)
		if strings.HasPrefix(dependency.Repository, "file://") {
			local = append(local, dependency.Name)
		}
	}
	switch {
	case len(missing) == 0:
		return nil
	case r.Path == "":
		return r.fail(r.attribute(), "dependencies are missing in it", "Its Chart.yaml names dependencies that are not in its charts/ folder: %s. The archive was published without them. Use another version, or get the chart with `helm pull --untar`, run `helm dependency build` on it, and set chart.path to its folder.", list(missing))
	case len(local) > 0:
		return r.fail(r.attribute(), "dependencies are missing in it", "Its Chart.yaml names dependencies that are not in its charts/ folder: %s, of which %s are taken from local folders (file://). Run `helm dependency build %s`.", list(missing), list(local), r.Path)
	}
	return r.fail(r.attribute(), "dependencies are missing in it", "Its Chart.yaml names dependencies that are not in its charts/ folder: %s. Run `helm dependency build %s`.", list(missing), r.Path)
}

// checkArchive looks through an archive, and those of subcharts in it, for what Helm's loader lets pass or meets too
// late: paths that lead out of it, links, and more content than memory should hold. Its errors are flaws.
func checkArchive(data []byte) error {
	left := loader.MaxDecompressedChartSize
	return checkTar(data, "", &left, 0)
}

// checkTar checks the archive called within (empty for the outermost one), and takes what it holds from left.
func checkTar(data []byte, within string, left *int64, depth int) error {
	switch {
	case isHTML(data):
		return flaw{"it is a web page and no archive", "HTML came in place of a chart's archive: the URL is that of a page for people, or a proxy or a login page answered. Correct where the chart is taken from."}
	case depth > maxNesting:
		return flaw{"its archives are nested too deep", fmt.Sprintf("%s lies in more than %d archives, each inside the next. Vendor the subcharts as folders.", quoted(within), maxNesting)}
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return notGzip
	}
	entries := tar.NewReader(&budget{Reader: unzipped, left: left})
	for {
		entry, err := entries.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return unreadable(err)
		}
		name := path.Join(within, strings.ReplaceAll(entry.Name, `\`, "/"))
		if why := escapes(entry); why != "" {
			return flaw{"a path in it leads out of it", fmt.Sprintf("%s %s. No good chart has such a file, so nothing was unpacked. Do not use this chart unless you know who made it.", quoted(path.Join(within, entry.Name)), why)}
		}
		if entry.Size > loader.MaxDecompressedFileSize && !entry.FileInfo().IsDir() {
			return flaw{"a file in it is too large", fmt.Sprintf("%s has %d bytes, and Helm reads at most %d MiB of a file. Leave the file out of the chart (.helmignore).", quoted(name), entry.Size, loader.MaxDecompressedFileSize>>20)}
		}
		if !subchartPattern.MatchString(strings.ReplaceAll(entry.Name, `\`, "/")) {
			continue
		}
		nested, err := io.ReadAll(entries)
		if err != nil {
			return unreadable(err)
		}
		if err := checkTar(nested, name, left, depth+1); err != nil {
			return err
		}
	}
}

// escapes is why an entry is none of a chart: it is meant for another place than the chart's folder, or is a link or a
// device.
func escapes(entry *tar.Header) string {
	name := strings.ReplaceAll(entry.Name, `\`, "/")
	switch {
	case entry.Typeflag == tar.TypeSymlink, entry.Typeflag == tar.TypeLink:
		return "is a link to " + quoted(entry.Linkname)
	case entry.Typeflag == tar.TypeChar, entry.Typeflag == tar.TypeBlock, entry.Typeflag == tar.TypeFifo:
		return "is a device and no file"
	case path.IsAbs(name), drivePattern.MatchString(name):
		return "is an absolute path"
	case slices.Contains(strings.Split(name, "/"), ".."):
		return `has ".." in it`
	}
	return ""
}

func unreadable(err error) error {
	switch {
	case errors.Is(err, errTooLarge):
		return flaw{"it is too large", fmt.Sprintf("It holds more than %d MiB uncompressed, which is the most that Helm reads. Leave out of the chart what it does not need (.helmignore).", loader.MaxDecompressedChartSize>>20)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return flaw{"its archive is cut off", "The archive ends in the middle of a file. Fetch or package it again."}
	}
	return notGzip
}

// budget reads as long as bytes are left.
type budget struct {
	io.Reader
	left *int64
}

// Read takes from what is left.
func (b *budget) Read(buffer []byte) (int, error) {
	n, err := b.Reader.Read(buffer)
	if *b.left -= int64(n); *b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
