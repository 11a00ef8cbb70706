package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"tenon.sh/dashboard"
	"tenon.sh/journal"
	"tenon.sh/serving"
)

// dashboardEvery is the default time between two reads of a live cluster while a user looks.
const dashboardEvery = 5 * time.Second

// mostTryLimit is the longest time that What if may plan, because an answer that takes more than a minute is given up.
const mostTryLimit = 50 * time.Second

// dashboardOptions are the flags of dashboard.
type dashboardOptions struct {
	planOptions
	address string
	hosts   []string
	every   time.Duration
	export  string
	journal []string
	// tryLimit is the time that What if may take to plan a change.
	tryLimit time.Duration
}

func newDashboard() *cobra.Command {
	o := dashboardOptions{planOptions: planOptions{engineFlags: defaultEngineFlags()}}
	command := &cobra.Command{
		Use:   "dashboard",
		Short: "Show the nodes and their price, what waits and why, as a web page",
		Long: `Serves a web page on this machine until Ctrl-C: the nodes and what they cost, the pods that wait and what each pool lacks for
them, what was decided and what it has saved, what another pool, price or scale would change, and the story behind each pod, node,
claim and pool. It shows a live cluster, or a file with -f (what tenon plan -f
takes, or a scenario, *.txt), in the words of tenon nodes, plan and explain. A live cluster is read again only while
somebody looks at the page. Nothing is changed.

With --export the page is written to one HTML file, which needs no server: for a ticket, or for people without access.`,
		Example: `  tenon dashboard
  tenon dashboard -f snapshot.yaml --address 127.0.0.1:0
  tenon dashboard --export cluster.html`,
		Args: noFileArgs,
		RunE: func(command *cobra.Command, _ []string) error { return o.run(command) },
	}
	flags := command.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "file or folder of objects, - for standard input; can be repeated")
	o.addCatalogFlags(flags)
	flags.StringVar(&o.address, "address", "127.0.0.1:8230", "where the page is served; port 0 is any free one")
	flags.StringArrayVar(&o.hosts, "allowed-host", nil, "a name under which browsers reach the page, beside those of this machine's loopback; can be repeated")
	flags.DurationVar(&o.every, "every", dashboardEvery, "how often a live cluster is read while somebody looks")
	flags.StringArrayVar(&o.journal, "journal", nil, "folder or file that a controller keeps its journal in, instead of asking the one that leads; can be repeated, the oldest first")
	flags.DurationVar(&o.tryLimit, "what-if-limit", 2*time.Second, "how long What if may plan a change; what is found by then is shown")
	flags.StringVar(&o.export, "export", "", "write the page to this HTML file instead of serving it")
	o.engineFlags.addFlags(flags)
	o.liveOptions.addFlags(flags)
	return command
}

func (o *dashboardOptions) run(command *cobra.Command) error {
	if err := o.check(); err != nil {
		return err
	}
	ctx, notes := command.Context(), newTerminal(command.ErrOrStderr())
	source := o.source(command.Flags(), command.InOrStdin(), notes)
	if o.export != "" {
		return o.writeExport(ctx, source)
	}
	listener, err := net.Listen("tcp", o.address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is taken by another program: choose another with --address, or any free one with --address 127.0.0.1:0", o.address)
	}
	if err != nil {
		return fmt.Errorf("--address: %w", err)
	}
	defer listener.Close()
	return o.serve(ctx, listener, source, newTerminal(command.OutOrStdout()))
}

// dashboardOf serves the page of the kubeconfig's cluster on a free port of this machine until ctx ends. It returns the page's address.
func dashboardOf(ctx context.Context, kubeconfig string, notes *terminal) (address string, err error) {
	o := dashboardOptions{planOptions: planOptions{engineFlags: defaultEngineFlags()}, every: dashboardEvery}
	o.kubeconfig = kubeconfig
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	reader, err := dashboard.NewReader(ctx, o.source(&pflag.FlagSet{}, strings.NewReader(""), notes), o.every, clock.RealClock{})
	if err != nil {
		return "", errors.Join(err, listener.Close())
	}
	token := rand.Text()
	handler, err := dashboard.Handler(reader, dashboard.Options{Token: token})
	if err != nil {
		return "", errors.Join(err, listener.Close())
	}
	go func() {
		if err := dashboardPort(listener, handler).Serve(ctx); err != nil {
			notes.line("the dashboard has ended: %s", oneLine(err))
		}
	}()
	return addressWithToken(listener, token), nil
}

// dashboardPort serves a page on this machine.
func dashboardPort(listener net.Listener, handler http.Handler) serving.Port {
	return serving.Port{Name: "tenon dashboard", Listener: listener, Routes: []serving.Route{{Pattern: "/", Limits: pageLimits, Handler: handler}}}
}

// addressWithToken returns the address for a browser. All users of this machine can reach its loopback, so a token keeps the others out.
func addressWithToken(listener net.Listener, token string) string {
	return "http://" + listener.Addr().String() + "/?token=" + token
}

// serve reads the cluster and serves its page until ctx ends.
func (o *dashboardOptions) serve(ctx context.Context, listener net.Listener, source dashboard.Source, out *terminal) error {
	every := o.every
	if len(o.files) > 0 {
		every = 0 // a file does not change
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	reader, err := dashboard.NewReader(ctx, source, every, clock.RealClock{})
	if err != nil {
		return interruptedOr(ctx, err)
	}
	token := rand.Text()
	handler, err := dashboard.Handler(reader, dashboard.Options{Hosts: o.hosts, TryLimit: o.tryLimit, Token: token})
	if err != nil {
		return err
	}
	out.line("The page is at %s until Ctrl-C.", addressWithToken(listener, token))
	if err := dashboardPort(listener, handler).Serve(ctx); err != nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}

func (o *dashboardOptions) writeExport(ctx context.Context, source dashboard.Source) error {
	picture, err := source(ctx)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	page, err := dashboard.Export(picture)
	if err != nil {
		return err
	}
	if err := os.WriteFile(o.export, page, 0o644); err != nil {
		return fmt.Errorf("--export: %w", err)
	}
	return nil
}

// check returns an error about wrong flags. The page shows the names of everything in the cluster, so other machines can reach it only if two
// flags allow it.
func (o *dashboardOptions) check() error {
	if o.every < time.Second {
		return fmt.Errorf("--every %s: it is at least 1s", o.every)
	}
	if o.tryLimit <= 0 || o.tryLimit > mostTryLimit {
		return fmt.Errorf("--what-if-limit %s: it is more than 0 and at most %s, since browsers are not answered later", o.tryLimit, mostTryLimit)
	}
	host, _, err := net.SplitHostPort(o.address)
	if err != nil {
		return fmt.Errorf("--address %s: it is a host and a port, such as 127.0.0.1:8230", o.address)
	}
	address, err := netip.ParseAddr(host)
	if local := host == "localhost" || err == nil && address.IsLoopback(); !local && len(o.hosts) == 0 {
		return fmt.Errorf("--address %s: other machines reach this address, and the page and its token are sent there without encryption; if that is meant, name with --allowed-host what browsers call it", o.address)
	}
	return o.engineFlags.check()
}

// source reads the cluster with the flags of the other commands. Standard input can be read only once.
func (o *dashboardOptions) source(flags *pflag.FlagSet, stdin io.Reader, notes *terminal) dashboard.Source {
	name := o.clusterName()
	return func(ctx context.Context) (*dashboard.Picture, error) {
		reading, err := o.readAny(ctx, stdin, notes)
		if err != nil {
			return nil, err
		}
		o.override(flags, &reading.Options, &reading.Snapshot)
		picture, err := newPicture(name, reading)
		if err == nil {
			picture.Savings = savingsOf(o.planOptions, reading)
			err = o.addJournal(ctx, picture)
		}
		return picture, err
	}
}

// mostDecisions is the largest number of decisions of a live cluster on the page.
const mostDecisions = 1000

// addJournal adds the journal of files, or of the controller that leads. If the controller's journal cannot be read, the page shows the error
// in its place.
func (o *dashboardOptions) addJournal(ctx context.Context, picture *dashboard.Picture) error {
	var document *journal.Document
	var err error
	switch {
	case len(o.journal) > 0:
		if document, err = journalOfFiles(o.journal, strings.NewReader("")); err != nil {
			return fmt.Errorf("--journal: %w", err)
		}
	case len(o.files) > 0:
		picture.NoJournal = "a file of a cluster has no journal: name one that a controller has kept with --journal"
		return nil
	default:
		config, err := o.config()
		if err == nil {
			document, err = journalOfLeader(ctx, config, o.leaderAddress, mostDecisions)
		}
		if err != nil {
			picture.NoJournal = oneLine(err)
			return nil
		}
	}
	return showJournal(picture, document)
}

func showJournal(picture *dashboard.Picture, document *journal.Document) error {
	picture.Notes = append(picture.Notes, document.Notes...)
	var text bytes.Buffer
	err := writeJournal(&text, document, "json")
	picture.Journal = text.Bytes()
	for _, c := range journal.Costs(document.Records) {
		picture.Costs = append(picture.Costs, dashboard.Cost(c))
	}
	picture.Decision = func(id string) (*dashboard.Explanation, error) { return pageDecision(document, id) }
	return err
}

func pageDecision(d *journal.Document, id string) (*dashboard.Explanation, error) {
	records, err := recordsCalled(d.Records, id)
	if err != nil {
		return nil, err
	}
	one := *d
	one.Records = records
	var text bytes.Buffer
	err = writeJournal(&text, one.Narrow(journal.Filter{}), "json")
	return &dashboard.Explanation{Document: text.Bytes(), Story: pageStory(decisionStory(&records[0], d.AsOf))}, err
}

// clusterName returns the cluster's name on the page: its files, or the context of the kubeconfig.
func (o *dashboardOptions) clusterName() string {
	if len(o.files) > 0 {
		names := titles(o.files)
		for i := range names {
			names[i] = filepath.Base(names[i])
		}
		return strings.Join(slices.Compact(names), ", ")
	}
	if o.context != "" {
		return o.context
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	if config, err := rules.Load(); err == nil && config.CurrentContext != "" {
		return config.CurrentContext
	}
	return "this cluster"
}
