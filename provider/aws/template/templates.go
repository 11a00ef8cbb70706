package template

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/cloud"
)

const (
	// keptFor is the time for which an unused template is kept.
	keptFor = 30 * time.Minute
	// cleanEvery is the time between two lists of templates from EC2.
	cleanEvery = 10 * time.Minute
	// atOnce is the number of templates of one launch that are made in parallel.
	atOnce = 8
)

// Templates makes and deletes the launch templates of a cluster. It may be used from several goroutines.
type Templates struct {
	cloud   *cloud.Cloud
	clock   clock.PassiveClock
	cluster string

	mu sync.Mutex // guards the fields below
	// used is the time at which an existing template was last used here, or first seen.
	used    map[string]time.Time
	making  map[string]*sync.Mutex // held while a template is made
	cleaned time.Time
}

// NewTemplates makes Templates. It calls no service.
func NewTemplates(c *cloud.Cloud, clock clock.PassiveClock, cluster string) *Templates {
	return &Templates{cloud: c, clock: clock, cluster: cluster, used: map[string]time.Time{}, making: map[string]*sync.Mutex{}}
}

// Ensure makes the templates that do not exist.
func (x *Templates) Ensure(ctx context.Context, templates []*Template) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, t := range templates {
		group.Go(func() error { return x.ensure(ctx, t) })
	}
	return group.Wait()
}

func (x *Templates) ensure(ctx context.Context, t *Template) error {
	if x.touch(t.Name) {
		return nil
	}
	lock := x.lock(t.Name)
	lock.Lock()
	defer lock.Unlock()
	if x.touch(t.Name) { // another caller was faster
		return nil
	}
	_, err := x.cloud.EC2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(t.Name), LaunchTemplateData: t.Data,
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeLaunchTemplate, Tags: t.Tags}},
	})
	if err != nil && !cloud.AlreadyExists(err) { // an existing template of this name has the same contents
		return fmt.Errorf("create launch template %s: %w", t.Name, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.used[t.Name] = x.clock.Now()
	return nil
}

// touch records the use of a template, if it is known to exist.
func (x *Templates) touch(name string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, known := x.used[name]
	if known {
		x.used[name] = x.clock.Now()
	}
	return known
}

func (x *Templates) lock(name string) *sync.Mutex {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.making[name] == nil {
		x.making[name] = &sync.Mutex{}
	}
	return x.making[name]
}

// Forget records that a template does not exist.
func (x *Templates) Forget(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.used, name)
}

// found is a template in EC2's list.
type found struct{ id, name string }

func (x *Templates) list(ctx context.Context, class string) (out []found, err error) {
	in := &ec2.DescribeLaunchTemplatesInput{
		Filters:    []ec2types.Filter{{Name: aws.String("tag:" + awsv1.ClusterNameTagKey), Values: []string{x.cluster}}},
		MaxResults: aws.Int32(200),
	}
	if class != "" {
		in.Filters = append(in.Filters, ec2types.Filter{Name: aws.String("tag:" + awsv1.NodeClassLabelKey), Values: []string{class}})
	}
	pages := ec2.NewDescribeLaunchTemplatesPaginator(x.cloud.EC2, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list the launch templates of cluster %s: %w", x.cluster, err)
		}
		for _, t := range page.LaunchTemplates {
			f := found{id: aws.ToString(t.LaunchTemplateId), name: aws.ToString(t.LaunchTemplateName)}
			if strings.HasPrefix(f.name, NamePrefix) {
				out = append(out, f)
			}
		}
	}
	return out, nil
}

// Clean deletes templates that have not been used for keptFor. For templates of another process, this time begins when Clean first sees them.
func (x *Templates) Clean(ctx context.Context) error {
	x.mu.Lock()
	due := x.cleaned.IsZero() || x.clock.Since(x.cleaned) >= cleanEvery
	x.mu.Unlock()
	if !due {
		return nil
	}
	list, err := x.list(ctx, "")
	if err != nil {
		return err
	}
	var errs []error
	exists := map[string]bool{}
	for _, t := range list {
		exists[t.name] = true
		if x.unused(t.name) {
			errs = append(errs, x.delete(ctx, t))
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.clock.Now()
	for name, at := range x.used { // another program deleted it; a new template may not be listed yet
		if !exists[name] && now.Sub(at) > time.Minute {
			delete(x.used, name)
			delete(x.making, name)
		}
	}
	x.cleaned = now
	return errors.Join(errs...)
}

// unused reports whether a template has not been used for keptFor. It then forgets the template.
func (x *Templates) unused(name string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	at, known := x.used[name]
	switch {
	case !known:
		x.used[name] = x.clock.Now()
		return false
	case x.clock.Since(at) < keptFor:
		return false
	}
	delete(x.used, name)
	return true
}

func (x *Templates) delete(ctx context.Context, t found) error {
	_, err := x.cloud.EC2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: aws.String(t.id)})
	if err != nil && !cloud.NotFound(err) {
		return fmt.Errorf("delete launch template %s: %w", t.name, err)
	}
	x.Forget(t.name)
	return nil
}

// DeleteOf deletes all templates of a class.
func (x *Templates) DeleteOf(ctx context.Context, class string) error {
	list, err := x.list(ctx, class)
	errs := []error{err}
	for _, t := range list {
		errs = append(errs, x.delete(ctx, t))
	}
	return errors.Join(errs...)
}
