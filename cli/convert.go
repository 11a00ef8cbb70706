package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"tenon.sh/convert"
	"tenon.sh/scenario/schema"
)

// convertOptions are the flags of convert.
type convertOptions struct {
	files   []string
	inPlace bool
	convert.Options
}

func newConvert() *cobra.Command {
	o := convertOptions{}
	command := &cobra.Command{
		Use:   "convert",
		Short: "Turn manifests of Karpenter's older APIs into those of today",
		Long: `Turns Provisioners, AWSNodeTemplates (v1alpha5) and NodePools, NodeClaims, EC2NodeClasses (v1beta1) into karpenter.sh/v1
and karpenter.k8s.aws/v1, and renames annotations of pods such as karpenter.sh/do-not-evict in any other manifest.
What is older in objects of today, such as the policy WhenUnderutilized, is mended. Comments stay, and documents in which
nothing changes keep every byte.

What is to be filled in, what could not be mapped and what will behave otherwise is said on standard error. Name files
that belong together in one call: what a pool says about its kubelets moves to its node class.

The exit status is 0 if the manifests are complete, 3 if something is to be filled in, and 1 if they could not be converted.
The converted manifests are written with status 3 too.`,
		Example: `  tenon convert -f provisioner.yaml -f nodetemplate.yaml > karpenter.yaml
  tenon convert -f manifests/ --in-place --role KarpenterNodeRole-my-cluster
  kubectl get nodepools,ec2nodeclasses -o yaml | tenon convert -f -`,
		Args: noFileArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command) },
	}
	flags := command.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder of manifests, - for standard input; can be repeated")
	flags.BoolVarP(&o.inPlace, "in-place", "i", false, "write the files anew instead of printing them")
	flags.StringVar(&o.Role, "role", "", "IAM role of nodes, for classes that name neither a role nor an instance profile")
	return command
}

func (o *convertOptions) run(command *cobra.Command) error {
	if len(o.files) == 0 {
		return errors.New("name files with -f, or - for standard input")
	}
	files, err := o.read(command.InOrStdin())
	if err != nil {
		return err
	}
	schemas, err := schema.New()
	if err != nil {
		return err
	}
	o.Rules = func(object map[string]any) []convert.Refusal {
		written := &unstructured.Unstructured{Object: object}
		if !schemas.Knows(written) { // not of Karpenter, or of an unknown kind
			return nil
		}
		violations, err := schemas.Violations(written)
		if err != nil {
			return []convert.Refusal{{Text: "it is no JSON, in which every key is a text: " + strings.TrimPrefix(err.Error(), fmt.Sprintf("%s %q: ", written.GetKind(), written.GetName()))}}
		}
		var out []convert.Refusal
		for _, v := range violations {
			out = append(out, convert.Refusal{Field: v.Field, Text: v.Error()})
		}
		return out
	}
	o.Unknown = func(object map[string]any) []string {
		written := &unstructured.Unstructured{Object: object}
		if !schemas.Knows(written) {
			return nil
		}
		fields, err := schemas.UnknownFields(written)
		if err != nil {
			return nil // the violations have the error
		}
		return fields
	}
	result, err := convert.Files(files, o.Options)
	if err != nil {
		return err
	}
	if o.inPlace {
		err = rewriteFiles(files, result.Files)
	} else {
		err = printFiles(command.OutOrStdout(), result.Files)
	}
	if err != nil {
		return err
	}
	writeConversion(newTerminal(command.ErrOrStderr()), result)
	if slices.ContainsFunc(result.Notes, func(n convert.Note) bool { return n.Kind == convert.ToDo }) {
		return errToBeFilledIn
	}
	return nil
}

func (o *convertOptions) read(stdin io.Reader) ([]convert.File, error) {
	var out []convert.File
	for _, name := range o.files {
		if name == "-" && o.inPlace {
			return nil, errors.New("--in-place writes files anew, and -f - is standard input")
		}
		paths, err := filesOf(name)
		if err != nil {
			return nil, fmt.Errorf("-f: %w", err)
		}
		for _, path := range paths {
			text, err := readText(path, stdin)
			if err != nil {
				return nil, fmt.Errorf("-f: %w", err)
			}
			out = append(out, text)
		}
	}
	return out, nil
}

func readText(path string, stdin io.Reader) (convert.File, error) {
	if path == "-" {
		text, err := io.ReadAll(stdin)
		return convert.File{Name: "standard input", Text: string(text)}, err
	}
	text, err := os.ReadFile(path)
	return convert.File{Name: path, Text: string(text)}, err
}

// printFiles writes all files as one.
func printFiles(out io.Writer, files []convert.File) error {
	begun := false
	for _, file := range files {
		if strings.TrimSpace(file.Text) == "" {
			continue
		}
		if begun && !strings.HasPrefix(file.Text, "---") {
			if _, err := fmt.Fprintln(out, "---"); err != nil {
				return err
			}
		}
		begun = true
		if _, err := fmt.Fprintln(out, strings.TrimRight(file.Text, "\n")); err != nil {
			return err
		}
	}
	return nil
}

// rewriteFiles writes the files that have changed.
func rewriteFiles(before, after []convert.File) error {
	for i, file := range after {
		if file.Text == before[i].Text {
			continue
		}
		info, err := os.Stat(file.Name)
		if err != nil {
			return fmt.Errorf("replace the file: %w", err)
		}
		if err := replaceFile(file.Name, file.Text, info.Mode().Perm()); err != nil {
			return fmt.Errorf("replace the file: %w", err)
		}
	}
	return nil
}

// replaceFile replaces the text of a file completely or not at all. If no new file can be made in its folder, it writes the file in place.
func replaceFile(name, text string, mode os.FileMode) error {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".")
	if err != nil {
		return os.WriteFile(name, []byte(text), mode)
	}
	defer os.Remove(next.Name()) // after success, the file has its new name
	_, err = next.WriteString(text)
	if err = errors.Join(err, next.Chmod(mode), next.Sync(), next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), name)
}

// writeConversion lists the changes and the remaining work.
func writeConversion(t *terminal, result convert.Result) {
	if result.Converted+result.Mended+result.Touched == 0 {
		t.line("Nothing to convert: no object is of an older API.")
	} else {
		done := count(result.Converted, "object") + " of older APIs converted"
		if result.Mended > 0 {
			done += ", " + count(result.Mended, "object") + " of today mended"
		}
		t.line("%s, names changed in %s.", done, count(result.Touched, "other object"))
	}
	titles := map[convert.NoteKind]string{
		convert.ToDo:    "To be filled in:",
		convert.Lost:    "Could not be mapped:",
		convert.Changed: "Behaves otherwise:",
		convert.Renamed: "Renamed:",
	}
	title := ""
	for _, note := range result.Notes {
		if next := titles[note.Kind]; next != title {
			title = next
			t.line("")
			t.line("%s", title)
		}
		t.line("  %s: %s", note.Object, note.Text)
	}
}
