package find_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"tenon.sh/api/awsv1"
	"tenon.sh/provider/aws/awstest"
)

// put writes a parameter of the account.
func (f fixture) put(t *testing.T, name, value string) {
	t.Helper()
	_, err := ssm.NewFromConfig(f.account.Config()).PutParameter(t.Context(), &ssm.PutParameterInput{
		Name: aws.String(name), Value: aws.String(value), Type: ssmtypes.ParameterTypeString, Overwrite: aws.Bool(true),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// selected returns the IDs of the images that terms select.
func (f fixture) selected(t *testing.T, terms ...awsv1.AMISelectorTerm) (ids []string) {
	t.Helper()
	images, err := f.Images(t.Context(), &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{AMISelectorTerms: terms}}, awstest.Kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range images {
		ids = append(ids, i.ID)
	}
	return ids
}

func TestImagesThatParametersOfOnesOwnName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.account.SetImages(
		awstest.Image{ID: "ami-a", Name: "a", Created: day(2)},
		awstest.Image{ID: "ami-b", Name: "b", Created: day(1), Architecture: "arm64"},
	)
	f.put(t, "/team/amd64", "ami-a")
	f.put(t, "/team/arm64", "ami-b")
	f.put(t, "/team/gone", "ami-gone")
	f.put(t, "/team/text", "hello")
	term := func(name string) awsv1.AMISelectorTerm { return awsv1.AMISelectorTerm{SSMParameter: name} }
	for _, test := range []struct {
		rule  string
		terms []awsv1.AMISelectorTerm
		want  string
	}{
		{"the image that it names", []awsv1.AMISelectorTerm{term("/team/amd64")}, "ami-a"},
		{"those of several", []awsv1.AMISelectorTerm{term("/team/amd64"), term("/team/arm64")}, "ami-a ami-b"},
		{"beside an ID", []awsv1.AMISelectorTerm{term("/team/amd64"), {ID: "ami-b"}}, "ami-a ami-b"},
		{"none, if there is no such parameter", []awsv1.AMISelectorTerm{term("/team/none")}, ""},
		{"none, if its value is no image", []awsv1.AMISelectorTerm{term("/team/text")}, ""},
		{"none, if there is no such image", []awsv1.AMISelectorTerm{term("/team/gone")}, ""},
		{"the others, if one names nothing", []awsv1.AMISelectorTerm{term("/team/none"), term("/team/text"), term("/team/arm64")}, "ami-b"},
	} {
		if got := f.selected(t, test.terms...); !slices.Equal(got, strings.Fields(test.want)) {
			t.Errorf("%s: got %v, want %s", test.rule, got, test.want)
		}
	}
	for _, call := range f.account.Calls("ec2:DescribeImages") {
		if ids := call.List("Filter.1.Value"); slices.Contains(ids, "hello") {
			t.Errorf("EC2 was asked for %v", ids)
		}
	}
}

// A parameter of the account may name another image at any time, and an empty one may be corrected.
func TestParametersOfOnesOwnMayChange(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.account.SetImages(awstest.Image{ID: "ami-a", Name: "a", Created: day(1)}, awstest.Image{ID: "ami-b", Name: "b", Created: day(2)})
	names := []string{"/team/new", "/team/wrong", "/team/late"}
	f.put(t, names[0], "ami-a")
	f.put(t, names[1], "hello")
	for _, name := range names {
		f.selected(t, awsv1.AMISelectorTerm{SSMParameter: name})
		f.put(t, name, "ami-b")
	}
	f.clock.Step(61 * time.Second)
	for _, name := range names[1:] {
		if got := f.selected(t, awsv1.AMISelectorTerm{SSMParameter: name}); !slices.Equal(got, []string{"ami-b"}) {
			t.Errorf("%s, which named nothing a minute ago, selects %v", name, got)
		}
	}
	f.clock.Step(10 * time.Minute)
	if got := f.selected(t, awsv1.AMISelectorTerm{SSMParameter: names[0]}); !slices.Equal(got, []string{"ami-b"}) {
		t.Errorf("%s selects %v", names[0], got)
	}
}

func TestAParameterThatMayNotBeReadIsTrouble(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.account.Fail("ssm:GetParameter", awstest.Fault{Status: 400, Code: "AccessDeniedException", Message: "no"})
	class := &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{SSMParameter: "/team/amd64"}, {ID: "ami-a"}}}}
	images, err := f.Images(t.Context(), class, awstest.Kubernetes)
	if err == nil || len(images) > 0 || !strings.Contains(err.Error(), "/team/amd64") || !strings.Contains(err.Error(), "ssm:GetParameter") {
		t.Errorf("images %v, error %v; want an error that names the parameter and the action", images, err)
	}
}
