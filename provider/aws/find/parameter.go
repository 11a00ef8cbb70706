package find

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"tenon.sh/provider/aws/cloud"
	"tenon.sh/provider/fresh"
)

// parameter is the value of an SSM parameter; image is "" if there is no parameter or if it does not name an image.
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
		p := parameter{moves: moves}
		if value := aws.ToString(answer.Parameter.Value); strings.HasPrefix(value, "ami-") {
			p.image = value
		}
		return p, nil
	})
	if p.image == "" && err == nil {
		cache.Forget(name) // the parameter may be created or corrected at any time
	}
	return p.image, err
}

// forgetParameters forgets the parameters that may have a newer image, if deprecated returns true for their last image. Parameters of a fixed
// version always name the same image.
func (f *Finder) forgetParameters(deprecated func(image string) bool) {
	f.parameters.Each(func(name string, p parameter) {
		if p.moves && deprecated(p.image) {
			f.parameters.Forget(name)
		}
	})
}
