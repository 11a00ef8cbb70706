// Package examine finds problems of an account that keep the autoscaler from working: missing permissions, a queue without notices, subnets
// without addresses. It changes nothing: it makes calls that would change something only as dry runs. One part of the package gathers answers;
// another part judges them and calls nothing.
package examine

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/sts"
	"k8s.io/utils/clock"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider"
	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/find"
)

// Config holds the settings of an Examiner.
type Config struct {
	Cloud *cloud.Cloud
	// STS returns the caller's identity; it may be nil.
	STS *sts.Client
	// Cluster is the cluster's name. Queue is the name of the interruption queue, "" for none.
	Cluster, Queue string
	// Isolated means that IAM and the price list cannot be reached, and are not needed.
	Isolated bool
}

// Examiner examines one account.
type Examiner struct {
	Config
	finder *find.Finder
}

var _ provider.Examiner = &Examiner{}

// Connect makes an Examiner from the SDK's standard environment.
func Connect(ctx context.Context, userAgent string, cfg Config) (*Examiner, error) {
	sdk, err := cloud.Load(ctx, userAgent)
	if err != nil {
		return nil, err
	}
	if cfg.Cloud, err = cloud.New(cloud.Bounded(sdk, clock.RealClock{})); err != nil {
		return nil, err
	}
	cfg.STS = sts.NewFromConfig(sdk)
	return New(cfg), nil
}

// New makes an Examiner. It calls no service.
func New(cfg Config) *Examiner {
	return &Examiner{Config: cfg, finder: find.New(find.Config{Cloud: cfg.Cloud, Clock: clock.RealClock{}, Cluster: cfg.Cluster})}
}

// Examine checks permissions, the queue, and the subnets of the classes.
func (x *Examiner) Examine(ctx context.Context, classes []provider.Class) []provider.Finding {
	var list []*awsv1.EC2NodeClass
	for _, c := range classes {
		if class, ok := c.Object.(*awsv1.EC2NodeClass); ok {
			list = append(list, class)
		}
	}
	who, err := x.who(ctx)
	out := judgeIdentity(who, err)
	if err != nil && cloud.Unknown(err) {
		return out // all other calls would fail too
	}
	out = append(out, judgePermissions(x.tries(ctx, list))...)
	out = append(out, judgeQueue(x.Queue, x.lookAtQueue(ctx))...)
	for _, class := range list {
		subnets, err := x.finder.Subnets(ctx, class.Spec.SubnetSelectorTerms)
		out = append(out, judgeSubnets(class.Name, subnets, err)...)
	}
	return out
}

// who returns the caller's ARN, "" without STS.
func (x *Examiner) who(ctx context.Context) (string, error) {
	if x.STS == nil {
		return "", nil
	}
	answer, err := x.STS.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", err
	}
	return *answer.Arn, nil
}
