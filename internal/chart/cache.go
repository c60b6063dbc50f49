package chart

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path"
	"path/filepath"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
)

// cache is a folder of archives by digest, and of references that say which archive a repository had for a version:
//
//	sha256/<hex>.tgz
//	references/<hex of the SHA-256 of repository, name and version>
//
// Any number of processes may share it: files appear whole, by a rename. It is never an error: what cannot be read is
// not there, and what cannot be written is not kept.
type cache struct{ dir string }

// entry is what a reference is for.
type entry struct{ repository, name, version string }

func entryOf(ref Ref, where place) entry {
	return entry{repository: where.remote.url.String(), name: ref.Name, version: ref.Version}
}

func (c cache) reference(of entry) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{of.repository, of.name, of.version}, "\x00")))
	return filepath.Join(c.dir, "references", hex.EncodeToString(sum[:]))
}

func (c cache) archive(digest string) string {
	return filepath.Join(c.dir, "sha256", strings.TrimPrefix(digest, "sha256:")+".tgz")
}

// read gives the archive of an entry; with a digest, the one that has it. An archive that is no longer what its digest
// says is deleted.
func (c cache) read(of entry, digest string) (archive, bool) {
	if c.dir == "" {
		return archive{}, false
	}
	text, _ := os.ReadFile(c.reference(of)) // an error reads like an empty one
	referenced := strings.TrimSpace(string(text))
	wanted := digest
	if wanted == "" {
		wanted = referenced
	}
	if !digestPattern.MatchString(wanted) {
		return archive{}, false
	}
	data, err := os.ReadFile(c.archive(wanted))
	if err != nil {
		return archive{}, false
	}
	if digestOf(data) != wanted {
		_ = os.Remove(c.archive(wanted)) // where that is not allowed, it is found to be wrong again
		return archive{}, false
	}
	// By its digest alone an archive may be another chart's: then the repository is asked, and says so.
	if wanted != referenced && !isChart(data, of) {
		return archive{}, false
	}
	return archive{data: data, digest: wanted}, true
}

// isChart tells whether an archive is the chart of an entry by its own account.
func isChart(data []byte, of entry) bool {
	loaded, err := loader.LoadArchive(bytes.NewReader(data))
	return err == nil && loaded.Name() == path.Base(of.name) && sameVersion(loaded.Metadata.Version, of.version)
}

// write keeps an archive that was checked.
func (c cache) write(of entry, what archive) {
	if c.dir == "" {
		return
	}
	if writeFile(c.archive(what.digest), what.data) == nil {
		_ = writeFile(c.reference(of), []byte(what.digest+"\n")) // without it, the archive is fetched again
	}
}

// writeFile makes a file appear whole.
func writeFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(data)
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary.Name(), name)
	}
	if err != nil {
		_ = os.Remove(temporary.Name()) // the first error is the one that counts
	}
	return err
}
