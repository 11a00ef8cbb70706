package cli

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"sigs.k8s.io/yaml"

	"tenon.sh/engine"
)

// commitmentsDocument is the content of --commitments-file.
type commitmentsDocument struct {
	Commitments *[]engine.Commitment `json:"commitments"`
}

// readCommitments parses the document. With an error, it returns no commitment.
func readCommitments(text []byte) ([]engine.Commitment, error) {
	var document commitmentsDocument
	if err := yaml.UnmarshalStrict(text, &document); err != nil {
		return nil, err
	}
	if document.Commitments == nil { // an empty file may be one that is being written
		return nil, errors.New("it has no list called commitments: write commitments: [] for none")
	}
	if err := engine.CheckCommitments(*document.Commitments); err != nil {
		return nil, err
	}
	return *document.Commitments, nil
}

// readCommitmentsFile reads the file of the flag; without a file, it returns none.
func readCommitmentsFile(path string) ([]engine.Commitment, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flagAndVariable("commitments-file"), err)
	}
	list, err := readCommitments(text)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flagAndVariable("commitments-file"), path, err)
	}
	return list, nil
}

// commitmentsFile is the file of a running controller, which reads it again and again because its ConfigMap may change.
type commitmentsFile struct {
	path string
	// refused is called once for each content that is wrong.
	refused func(err error)

	mu   sync.Mutex
	read bool
	text string // the file's text, or the error of reading it
	list []engine.Commitment
}

var errKeepsLast = errors.New("the earlier content counts until the file is right")

// now returns the commitments of the file. If the file is wrong, it returns the last correct ones.
func (f *commitmentsFile) now() []engine.Commitment {
	if f.path == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	content, err := os.ReadFile(f.path)
	text := string(content)
	if err != nil {
		text = err.Error()
	}
	if f.read && text == f.text {
		return f.list
	}
	f.read, f.text = true, text
	var list []engine.Commitment
	if err == nil {
		list, err = readCommitments(content)
	}
	if err != nil {
		f.refused(fmt.Errorf("read commitments from %s: %w; %w", f.path, err, errKeepsLast))
		return f.list
	}
	f.list = list
	return f.list
}
