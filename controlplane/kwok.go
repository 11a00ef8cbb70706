package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
)

// runKWOK runs KWOK's own controller. It does not use KWOK's command line, which would read a configuration from the user's home folder, and
// cannot set the parallelism without a file.
func runKWOK(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := kwok(ctx, args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "kwok: %v\n", err)
		return 1
	}
	return 0
}

// kwokFlags holds the flags of KWOK's own command that are needed here, with the same names.
type kwokFlags struct {
	kubeconfig, address, selector, cidr string
	parallelism                         uint
	leaseSeconds                        uint
	level                               int
}

func parseKWOKFlags(args []string) (kwokFlags, error) {
	var f kwokFlags
	set := flag.NewFlagSet("kwok", flag.ContinueOnError)
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "path of the kubeconfig")
	set.StringVar(&f.address, "server-address", "", "host:port that answers /healthz; empty: none")
	set.StringVar(&f.selector, "manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake", "the nodes to play")
	set.StringVar(&f.cidr, "cidr", "10.0.0.0/24", "where pod addresses come from")
	set.UintVar(&f.parallelism, "parallelism", 16, "how many stages of nodes, of pods, and leases are worked on at once")
	set.UintVar(&f.leaseSeconds, "node-lease-duration-seconds", 40, "duration of a node's lease")
	set.IntVar(&f.level, "v", int(log.LevelWarn), "log level: -4 debug, 0 information, 4 warnings, 8 errors")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if f.parallelism == 0 {
		return f, fmt.Errorf("--parallelism must be at least 1")
	}
	return f, nil
}

func kwok(ctx context.Context, args []string) error {
	f, err := parseKWOKFlags(args)
	if err != nil {
		return err
	}
	ctx = log.NewContext(ctx, log.NewLogger(os.Stderr, log.Level(f.level)))

	client, err := kwokClient(f.kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", f.kubeconfig, err)
	}
	stages, err := loadStages()
	if err != nil {
		return err
	}
	if err := readAhead(ctx, stages); err != nil {
		return err
	}
	controller, err := controllers.NewController(controllers.Config{
		Clock:                             clock.RealClock{},
		TypedClient:                       client,
		RESTClient:                        client.Discovery().RESTClient(),
		LocalStages:                       stages,
		ManageNodesWithAnnotationSelector: f.selector,
		CIDR:                              f.cidr,
		NodePlayStageParallelism:          f.parallelism,
		PodPlayStageParallelism:           f.parallelism,
		PodsOnNodeSyncParallelism:         f.parallelism,
		NodeLeaseParallelism:              f.parallelism,
		NodeLeaseDurationSeconds:          f.leaseSeconds,
		EnablePodsOnNodeSyncListPager:     true,
		// The ID is the holder of the node leases. It is constant, so that a restarted KWOK holds them at once and need not wait until the leases
		// of the previous process expire.
		ID: "kwok",
	})
	if err != nil {
		return err
	}
	if err := controller.Start(ctx); err != nil {
		return err
	}
	played, err := labels.Parse(f.selector)
	if err != nil {
		return fmt.Errorf("--manage-nodes-with-annotation-selector: %w", err)
	}
	if err := playResizes(ctx, client, played); err != nil {
		return err
	}
	if err := serveHealth(f.address); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// readAhead makes KWOK read its stages once, one after the other. A library then stores its knowledge of Go types in maps without locks.
// Otherwise the workers for nodes and for pods would write these maps at the same time, which ends the process.
func readAhead(ctx context.Context, stages map[internalversion.StageResourceRef][]*internalversion.Stage) error {
	for ref, list := range stages {
		var object any = &corev1.Pod{}
		if ref.Kind == "Node" {
			object = &corev1.Node{}
		}
		read, err := lifecycle.NewLifecycle(list)
		if err == nil {
			_, err = read.ListAllPossible(ctx, &lifecycle.Event{Data: object})
		}
		if err != nil {
			return fmt.Errorf("read the stages of a %s: %w", ref.Kind, err)
		}
	}
	return nil
}

// kwokClient returns a client without a rate limit, because KWOK acts for the kubelets of all nodes, each of which would have a limit of its
// own.
func kwokClient(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	config.UserAgent = "kwok"
	config.ContentConfig = rest.ContentConfig{
		ContentType:        "application/vnd.kubernetes.protobuf",
		AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
	}
	return kubernetes.NewForConfig(config)
}

// serveHealth answers /healthz as soon as KWOK works.
func serveHealth(address string) error {
	if address == "" {
		return nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--server-address: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	go func() { _ = http.Serve(listener, mux) }()
	return nil
}
