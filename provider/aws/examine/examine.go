// Package examine looks at an account for what keeps the autoscaler from working there: permissions that are missing, a
// queue that brings no notices, subnets without addresses. It only asks, and asks EC2 to try what would change something.
// The package gathers answers in one place and judges them in another, which calls nothing.
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

// Config is what an Examiner is made from.
type Config struct {
	Cloud *cloud.Cloud
	// STS says who asks; it may be nil.
	STS *sts.Client
	// Cluster is the cluster's name, Queue that of the queue of interruptions, "" for none.
	Cluster, Queue string
	// Isolated means that IAM and the price list cannot be reached, and are not needed.
	Isolated bool
}

// Examiner looks at one account.
type Examiner struct {
	Config
	finder *find.Finder
}

var _ provider.Examiner = &Examiner{}

// Connect makes it from the SDK's standard environment.
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

// New makes it. It calls nothing.
func New(cfg Config) *Examiner {
	return &Examiner{Config: cfg, finder: find.New(find.Config{Cloud: cfg.Cloud, Clock: clock.RealClock{}, Cluster: cfg.Cluster})}
}

// Examine looks at permissions, at the queue, and at the subnets of the classes.
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
		return out // nothing else would be answered
	}
	out = append(out, judgePermissions(x.tries(ctx, list))...)
	out = append(out, judgeQueue(x.Queue, x.lookAtQueue(ctx))...)
	for _, class := range list {
		subnets, err := x.finder.Subnets(ctx, class.Spec.SubnetSelectorTerms)
		out = append(out, judgeSubnets(class.Name, subnets, err)...)
	}
	return out
}

// who asks, as AWS knows them; "" if that cannot be found out.
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
