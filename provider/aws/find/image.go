package find

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"tenon.sh/api/awsv1"
	v1 "tenon.sh/api/v1"
	"tenon.sh/provider/aws/images"
)

// Image is an image of EC2, with one kind of machine that it is for.
type Image struct {
	awsv1.AMI
	created time.Time
}

// imageQuery is one query to EC2.
type imageQuery struct {
	Filters []ec2types.Filter
	Owners  []string
}

// Images finds the images that the class selects, the best first. For each kind of machine, the list has only the best image: an image that
// is not deprecated, then the newest.
func (f *Finder) Images(ctx context.Context, class *awsv1.EC2NodeClass, kubernetes string) ([]Image, error) {
	alias, hasAlias, err := class.Alias()
	if err != nil {
		return nil, &UnsupportedAliasError{err.Error()}
	}
	key := keyOf(class.Spec.AMISelectorTerms, kubernetes)
	return f.images.Get(ctx, key, func(ctx context.Context) ([]Image, error) {
		special := imageKinds{}
		var queries []imageQuery
		if hasAlias {
			if special, err = f.aliasImages(ctx, alias, kubernetes); err != nil {
				return nil, err
			}
			queries = byID(slices.Sorted(maps.Keys(special)))
		} else if queries, err = f.imageQueries(ctx, class.Spec.AMISelectorTerms); err != nil {
			return nil, err
		}
		images, err := f.describeImages(ctx, queries, special)
		f.forgetDeprecated(images)
		return images, err
	})
}

// forgetDeprecated forgets SSM parameters that name a deprecated image, so that SSM is asked again for the latest one. Otherwise parameters
// are kept for a day.
func (f *Finder) forgetDeprecated(images []Image) {
	f.forgetParameters(func(id string) bool {
		return slices.ContainsFunc(images, func(i Image) bool { return i.ID == id && i.Deprecated })
	})
}

func byID(ids []string) []imageQuery {
	if len(ids) == 0 {
		return nil
	}
	return []imageQuery{{Filters: []ec2types.Filter{filter("image-id", ids...)}}}
}

// imageQueries turns terms into queries: one for all IDs, and one for each other term. A name without an owner is looked up only among the
// images of the account and of Amazon, because other accounts can give an image that name.
func (f *Finder) imageQueries(ctx context.Context, terms []awsv1.AMISelectorTerm) ([]imageQuery, error) {
	var ids []string
	var out []imageQuery
	for _, t := range terms {
		if t.SSMParameter != "" {
			id, err := f.parameter(ctx, f.own, t.SSMParameter, true)
			if err != nil {
				return nil, err
			}
			if id != "" {
				ids = append(ids, id)
			}
			continue
		}
		if t.ID != "" {
			ids = append(ids, t.ID)
			continue
		}
		q := imageQuery{Filters: tagFilters(t.Tags)}
		if t.Name != "" {
			q.Filters = append(q.Filters, filter("name", t.Name))
			q.Owners = []string{"self", "amazon"}
		}
		if t.Owner != "" {
			q.Owners = []string{t.Owner}
		}
		if len(q.Filters)+len(q.Owners) > 0 {
			out = append(out, q)
		}
	}
	return append(byID(ids), out...), nil
}

func (f *Finder) describeImages(ctx context.Context, queries []imageQuery, special imageKinds) ([]Image, error) {
	best := map[string]Image{}
	for _, q := range queries {
		pages := ec2.NewDescribeImagesPaginator(f.cloud.EC2, &ec2.DescribeImagesInput{
			Filters:           append(slices.Clone(q.Filters), filter("state", "available")),
			Owners:            q.Owners,
			IncludeDeprecated: aws.Bool(true),
			MaxResults:        aws.Int32(1000),
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("look for images: %w", err)
			}
			for _, described := range page.Images {
				for _, image := range f.imagesOf(described, special) {
					kind := images.TextOf(image.Requirements)
					if old, found := best[kind]; !found || byMerit(image, old) < 0 {
						best[kind] = image
					}
				}
			}
		}
	}
	out := slices.Collect(maps.Values(best))
	slices.SortFunc(out, func(a, b Image) int {
		return cmp.Or(b.created.Compare(a.created), cmp.Compare(a.ID, b.ID), cmp.Compare(images.TextOf(a.Requirements), images.TextOf(b.Requirements)))
	})
	return out, nil
}

// imagesOf returns an image once for every kind of machine that it is for. It returns nil for other processors than amd64 and arm64.
func (f *Finder) imagesOf(described ec2types.Image, special imageKinds) (out []Image) {
	arch := ""
	switch described.Architecture {
	case ec2types.ArchitectureValuesX8664:
		arch = v1.ArchitectureAMD64
	case ec2types.ArchitectureValuesArm64:
		arch = v1.ArchitectureARM64
	default:
		return nil
	}
	image := Image{AMI: awsv1.AMI{ID: aws.ToString(described.ImageId), Name: aws.ToString(described.Name)}, created: timeOf(described.CreationDate)}
	if ends := timeOf(described.DeprecationTime); !ends.IsZero() && !ends.After(f.clock.Now()) {
		image.Deprecated = true
	}
	lists := special[image.ID]
	if lists == nil {
		lists = []images.Requirements{images.WithArchitecture(nil, arch)}
	}
	for _, list := range lists {
		image.Requirements = list
		out = append(out, image)
	}
	return out
}

// byMerit compares images; the preferred image comes first.
func byMerit(a, b Image) int {
	if a.Deprecated != b.Deprecated {
		if b.Deprecated {
			return -1
		}
		return 1
	}
	return cmp.Or(b.created.Compare(a.created), cmp.Compare(b.Name, a.Name), cmp.Compare(a.ID, b.ID))
}

// timeOf parses a time in EC2's format; a text in another format gives the zero time.
func timeOf(text *string) time.Time {
	t, err := time.Parse(time.RFC3339, aws.ToString(text))
	if err != nil {
		return time.Time{}
	}
	return t
}
