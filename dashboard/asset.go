package dashboard

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed assets *.templ
var files embed.FS

// assets are the files that pages refer to, by the names under which they are served. A name contains the hash of the content, so
// browsers may keep the file for ever.
type assets struct {
	served map[string][]byte // by the name with the hash
	names  map[string]string // from the plain name
	build  string            // changes with any file of the page
}

func readAssets() (*assets, error) {
	a := &assets{served: map[string][]byte{}, names: map[string]string{}}
	whole := sha256.New()
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		whole.Write(content)
		base, ok := strings.CutPrefix(name, "assets/")
		if !ok {
			return nil
		}
		ext := path.Ext(base)
		hashed := fmt.Sprintf("%s.%.12x%s", strings.TrimSuffix(base, ext), sha256.Sum256(content), ext)
		a.served[hashed], a.names[base] = content, hashed
		return nil
	})
	a.build = fmt.Sprintf("%.12x", whole.Sum(nil))
	return a, err
}

// address returns the address at which a file is served.
func (a *assets) address(name string) (string, error) {
	hashed, ok := a.names[name]
	if !ok {
		return "", fmt.Errorf("the page has no file %s", name)
	}
	return "/assets/" + hashed, nil
}

func (a *assets) serve(w http.ResponseWriter, r *http.Request) {
	content, ok := a.served[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(r.PathValue("name"))))
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	send(w, r, http.StatusOK, content)
}
