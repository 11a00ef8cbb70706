package find

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/aws/fresh"
)

// parameter is what an SSM parameter says; "" if there is none.
type parameter struct {
	image string
	// moves means that the parameter names another image when a newer one is published.
	moves bool
}

// parameter reads the ID of an image from SSM.
func (f *Finder) parameter(ctx context.Context, cache *fresh.Cache[string, parameter], name string, moves bool) (string, error) {
	p, err := cache.Get(ctx, name, func(ctx context.Context) (parameter, error) {
		answer, err := f.cloud.SSM.GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String(name)})
		if cloud.NotFound(err) {
			return parameter{moves: moves}, nil
		}
		if err != nil {
			return parameter{}, fmt.Errorf("read SSM parameter %s: %w", name, err)
		}
		return parameter{aws.ToString(answer.Parameter.Value), moves}, nil
	})
	if p.image == "" && err == nil {
		cache.Forget(name) // it may be published any time
	}
	if !strings.HasPrefix(p.image, "ami-") {
		return "", err
	}
	return p.image, err
}

// forgetParameters forgets the parameters that may name another image by now, if deprecated says so of the one they named
// last. Parameters of one version always name the same image.
func (f *Finder) forgetParameters(deprecated func(image string) bool) {
	f.parameters.Each(func(name string, p parameter) {
		if p.moves && deprecated(p.image) {
			f.parameters.Forget(name)
		}
	})
}
