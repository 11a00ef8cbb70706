package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"tenon.sh/journal"
)

// journalKind is the kind of the journal's document.
const journalKind = "Journal"

// journalOptions are the flags of journal.
type journalOptions struct {
	liveOptions
	files  []string
	filter journal.Filter
	since  time.Duration
	output string
}

func newJournal() *cobra.Command {
	o := journalOptions{}
	command := &cobra.Command{
		Use:   "journal [ID]",
		Short: "List what was decided, why, what became of it and what it has saved",
		Long: `Lists the decisions of the controller that leads: machines started, nodes removed or replaced, machines that went by themselves
and pods that nothing can run, with what each was expected to save and has saved so far. With an ID, which may be cut short, it
tells one decision: what was seen, chosen and rejected, and step by step what happened.

The controller keeps the newest 10,000 decisions in memory; with --journal FOLDER it keeps them over restarts, and -f shows
what is in such a folder or file without a cluster. Nothing is changed.`,
		Example: `  tenon journal --since 24h
  tenon journal --pool general --reason Underutilized
  tenon journal 20260105T1200
  tenon journal -f /var/lib/tenon/journal -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return o.run(command, args) },
	}
	flags := command.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "folder or file that a controller keeps its journal in, - for standard input; can be repeated, the oldest first")
	flags.DurationVar(&o.since, "since", 0, "show decisions of this last time, such as 24h; 0 for all")
	flags.StringVar(&o.filter.NodePool, "pool", "", "show decisions about this pool")
	flags.StringVar(&o.filter.Node, "node", "", "show decisions about this node or claim")
	flags.StringVar(&o.filter.Reason, "reason", "", "show decisions for this reason, such as Underutilized, Empty, Drifted, Pending or Interrupted")
	addOutputFlag(flags, &o.output)
	o.liveOptions.addFlags(flags)
	return command
}

func (o *journalOptions) run(command *cobra.Command, args []string) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if o.since < 0 {
		return fmt.Errorf("--since %s: it is not below 0", o.since)
	}
	document, err := o.read(command.Context(), command.InOrStdin())
	if err != nil {
		return interruptedOr(command.Context(), err)
	}
	newTerminal(command.ErrOrStderr()).notes(document.Notes)
	if o.since > 0 {
		o.filter.Since = document.AsOf.Add(-o.since)
	}
	document = document.Narrow(o.filter)
	out := command.OutOrStdout()
	if len(args) > 0 {
		if document.Records, err = recordsCalled(document.Records, args[0]); err != nil {
			return err
		}
		if o.output == "text" {
			story := decisionStory(&document.Records[0], document.AsOf)
			story.write(newTerminal(out))
			return nil
		}
		document = document.Narrow(journal.Filter{})
	}
	return writeJournal(out, document, o.output)
}

func writeJournal(out io.Writer, d *journal.Document, output string) error {
	if output == outputText {
		screen := newTerminal(out)
		screen.lines(journalLines(screen, d))
		return nil
	}
	return writeAs(out, output, func(out io.Writer) error { return writeRecord(out, journalKind, d) })
}

// recordsCalled returns the one record with this ID, or whose ID begins with it.
func recordsCalled(records []journal.Record, id string) ([]journal.Record, error) {
	var found []journal.Record
	for _, r := range records {
		if r.ID == id {
			return []journal.Record{r}, nil
		}
		if strings.HasPrefix(r.ID, id) {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("the journal has no decision %s: tenon journal lists those that it has", id)
	case 1:
		return found, nil
	}
	return nil, fmt.Errorf("%d decisions begin with %s, such as %s and %s: write more of the ID", len(found), id, found[0].ID, found[1].ID)
}

// read reads the journal from files, or from the leading controller.
func (o *journalOptions) read(ctx context.Context, stdin io.Reader) (*journal.Document, error) {
	if len(o.files) > 0 {
		return journalOfFiles(o.files, stdin)
	}
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	return journalOfLeader(ctx, config, o.leaderAddress, 0)
}

// journalOfLeader requests the newest decisions from the leading controller. A most of 0 requests all.
func journalOfLeader(ctx context.Context, config *rest.Config, where leaderAddress, most int) (*journal.Document, error) {
	if where.catalogURL == catalogNone {
		return nil, errors.New("--catalog-url none: the journal is where the catalog is; read a file of it with -f")
	}
	text, err := askLeader(ctx, config, where, journalPath, "most", strconv.Itoa(most))
	if err != nil {
		return nil, err
	}
	var d struct {
		Kind string `json:"kind"`
		journal.Document
	}
	if err := json.Unmarshal(text, &d); err != nil || d.Kind != journalKind {
		return nil, errors.New("read the controller's journal: the server at this address has none; it may be of an older version")
	}
	return &d.Document, nil
}

// journalOfFiles reads files and folders. The document's time is that of the last record.
func journalOfFiles(names []string, stdin io.Reader) (*journal.Document, error) {
	var records []journal.Record
	var notes []string
	another := false // a file has other content than a journal
	for _, name := range names {
		more, said, err := readJournal(name, stdin)
		if err != nil {
			return nil, err
		}
		records = append(records, more...)
		for _, note := range said {
			notes = append(notes, title(name)+": "+note)
			another = another || strings.HasPrefix(note, journal.WholeLines)
		}
	}
	if len(records) == 0 && another {
		return nil, fmt.Errorf("read the journal: there is none: %s", strings.Join(notes, "; "))
	}
	slices.SortStableFunc(records, func(a, b journal.Record) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID)) })
	d := journal.NewDocument(records, journal.Last(records), journal.Filter{})
	d.Notes = notes
	return d, nil
}

func readJournal(name string, stdin io.Reader) ([]journal.Record, []string, error) {
	if name == "-" {
		return journal.Read(stdin)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, fmt.Errorf("read the journal: %w", err)
	}
	if info.IsDir() {
		records, notes, err := journal.ReadDir(name)
		if err == nil && len(records)+len(notes) == 0 {
			err = fmt.Errorf("read the journal: there is none in folder %s: a controller that runs with --journal writes %s", name, journal.NewestFile)
		}
		return records, notes, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("read the journal: %w", err)
	}
	defer f.Close()
	return journal.Read(f)
}
