package fleettest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// GitRepository is a git repository on this machine, with the branch main.
type GitRepository struct{ dir string }

// NewGitRepository makes an empty repository that lives as long as the test.
func NewGitRepository(t testing.TB) *GitRepository {
	t.Helper()
	r := &GitRepository{dir: t.TempDir()}
	r.git(t, "init", "--quiet", "--initial-branch=main")
	return r
}

// URL is where the repository can be cloned from on this machine: file:// and a path.
func (r *GitRepository) URL() string { return "file://" + filepath.ToSlash(r.dir) }

// Commit writes the files, by their paths with slashes, to the branch main and returns the hash of the commit. A file
// with empty content is deleted. It fails the test where nothing changes.
func (r *GitRepository) Commit(t testing.TB, message string, files map[string]string) string {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(r.dir, filepath.FromSlash(name))
		if content == "" {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.git(t, "add", "--all")
	r.git(t, "commit", "--quiet", "--message="+message)
	return r.git(t, "rev-parse", "HEAD")
}

// git runs git without the user's settings and returns what it prints.
func (r *GitRepository) git(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = r.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=fleettest", "GIT_AUTHOR_EMAIL=fleettest@example.com",
		"GIT_COMMITTER_NAME=fleettest", "GIT_COMMITTER_EMAIL=fleettest@example.com",
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}
