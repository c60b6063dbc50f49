package chart

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	helm "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// load loads a local chart. It is not kept in memory: reading it takes milliseconds, and it may have been changed.
func (p place) load(ref Ref) (Chart, error) {
	attribute := ref.attribute()
	if p.overrides != "" {
		attribute = "charts.repository_overrides"
	}
	info, err := os.Stat(p.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		absolute, _ := filepath.Abs(p.path)
		return Chart{}, ref.fail(attribute, "there is nothing at its path", "%q does not exist. Correct chart.path; a relative path begins at the folder where the command runs, and ${path.module} is that of the module.", absolute)
	case err != nil:
		return Chart{}, ref.fail(attribute, "its path cannot be read", "%s. Let the user who runs this read it.", err)
	case !info.IsDir() && !info.Mode().IsRegular():
		return Chart{}, ref.fail(attribute, "its path is no folder or file", "%q is a device, a socket or the like. Set chart.path to a chart's folder or archive.", p.path)
	case info.IsDir():
		return p.loadFolder(ref, attribute)
	case info.Size() > maxArchive:
		return Chart{}, ref.fail(attribute, "its archive is too large", "%q has %d bytes, and at most %d MiB are read of an archive. Leave out of the chart what it does not need (.helmignore), or set chart.path to its folder.", p.path, info.Size(), maxArchive>>20)
	}
	data, err := os.ReadFile(p.path)
	if err != nil {
		return Chart{}, ref.fail(attribute, "its path cannot be read", "%s. Let the user who runs this read it.", err)
	}
	if err := checkArchive(data); err != nil {
		return Chart{}, ref.about(err, attribute)
	}
	loaded, err := loader.LoadArchive(bytes.NewReader(data))
	if err != nil {
		return Chart{}, ref.about(err, attribute)
	}
	digest := contentDigest(loaded)
	if p.overrides != "" { // it stands for the repository's archive, byte by byte
		digest = digestOf(data)
	}
	return p.finish(ref, loaded, digest)
}

func (p place) loadFolder(ref Ref, attribute string) (Chart, error) {
	// Helm would read the whole folder first, which may be anybody's home.
	if _, err := os.Stat(filepath.Join(p.path, "Chart.yaml")); errors.Is(err, fs.ErrNotExist) {
		return Chart{}, ref.about(noChartYAML, attribute)
	}
	loaded, err := loader.LoadDir(p.path)
	if err != nil {
		return Chart{}, ref.about(err, attribute)
	}
	size := int64(0)
	for _, file := range loaded.Raw {
		size += int64(len(file.Data))
	}
	if size > loader.MaxDecompressedChartSize {
		return Chart{}, ref.about(unreadable(errTooLarge), attribute)
	}
	return p.finish(ref, loaded, contentDigest(loaded))
}

// finish checks a local chart that was loaded.
func (p place) finish(ref Ref, loaded *helm.Chart, digest string) (Chart, error) {
	if p.overrides != "" && !sameVersion(loaded.Metadata.Version, ref.Version) {
		return Chart{}, ref.fail("chart.version", "what overrides its repository has another version", "The provider's charts.repository_overrides has %q in place of %s, where the chart has version %s and not %s. Put this version there, or set chart.version to the one that is there.", p.path, quoted(shown(p.overrides)), loaded.Metadata.Version, ref.Version)
	}
	if err := ref.checkDigest(digest); err != nil {
		return Chart{}, err
	}
	if err := ref.installable(loaded); err != nil {
		return Chart{}, err
	}
	return Chart{Chart: loaded, Digest: digest}, nil
}

// contentDigest is the digest of a local chart: of the names and bytes of the files that Helm loads, so without what
// .helmignore leaves out, and in the order of their names. Neither times nor permissions count.
func contentDigest(loaded *helm.Chart) string {
	files := make([]*loader.BufferedFile, 0, len(loaded.Raw))
	for _, file := range loaded.Raw {
		files = append(files, &loader.BufferedFile{Name: file.Name, Data: file.Data})
	}
	sum := contentSum(files, 0)
	return "sha256:" + hex.EncodeToString(sum)
}

func contentSum(files []*loader.BufferedFile, depth int) []byte {
	slices.SortStableFunc(files, func(a, b *loader.BufferedFile) int { return strings.Compare(a.Name, b.Name) })
	hash := sha256.New()
	write := func(part []byte) {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // so that no two lists of files look alike
		hash.Write(part)
	}
	for _, file := range files {
		if file.Name == "Chart.lock" || file.Name == "requirements.lock" {
			continue // it says when dependencies were looked up, and what is rendered does not depend on it
		}
		data := file.Data
		// `helm dependency build` packs local subcharts anew, with new times: what counts is what is in them.
		if subchartPattern.MatchString("chart/"+file.Name) && depth < maxNesting {
			if nested, err := loader.LoadArchiveFiles(bytes.NewReader(data)); err == nil {
				data = contentSum(nested, depth+1)
			}
		}
		write([]byte(file.Name))
		write(data)
	}
	return hash.Sum(nil)
}
