// Package cloud holds the connections to AWS: one client for each service, all with one configuration. Their errors contain remedies. Other
// packages make the calls.
package cloud

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"tenon.sh/provider/aws/pace"
)

// Cloud is an account in a region. Its clients may be used from several goroutines.
type Cloud struct {
	Region string
	// Pace keeps calls to EC2 below its limits. Calls wait for it by themselves. Callers must count the machines that they request.
	Pace *pace.Pace

	EC2        *ec2.Client
	EKS        *eks.Client
	IAM        *iam.Client
	Pricing    *pricing.Client
	SQS        *sqs.Client
	SSM        *ssm.Client
	ZonalShift *arczonalshift.Client
}

// Load reads the SDK's standard environment: AWS_REGION, AWS_ENDPOINT_URL, and credentials from any source. On a machine of EC2 without a
// region in its environment, it asks the metadata service. Calls for credentials and to the metadata service have a time limit; Bounded
// limits the other calls.
func Load(ctx context.Context, userAgent string) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx,
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(2*Patience)),
		config.WithAPIOptions(middlewareList(middleware.AddUserAgentKey(userAgent))))
	if err != nil {
		return aws.Config{}, fmt.Errorf("read the configuration of the AWS SDK: %w", err)
	}
	if cfg.Region != "" {
		return cfg, nil
	}
	answer, err := imds.NewFromConfig(cfg).GetRegion(ctx, nil)
	if err != nil {
		return aws.Config{}, fmt.Errorf("find out the region: AWS_REGION is not set, and the metadata service of EC2 does not say: %w", err)
	}
	cfg.Region = answer.Region
	return cfg, nil
}

// New makes the clients. It calls no service.
func New(cfg aws.Config) (*Cloud, error) {
	if cfg.Region == "" {
		return nil, fmt.Errorf("connect to AWS: no region: set AWS_REGION")
	}
	cfg = cfg.Copy()
	cfg.APIOptions = append(cfg.APIOptions[:len(cfg.APIOptions):len(cfg.APIOptions)], explainErrors)
	turns := pace.New()
	priced := cfg.Copy()
	priced.Region = priceRegion(cfg.Region)
	return &Cloud{
		Region:     cfg.Region,
		Pace:       turns,
		EC2:        ec2.NewFromConfig(cfg, func(o *ec2.Options) { o.APIOptions = append(o.APIOptions, paced(turns)) }),
		EKS:        eks.NewFromConfig(cfg),
		IAM:        iam.NewFromConfig(cfg),
		Pricing:    pricing.NewFromConfig(priced),
		SQS:        sqs.NewFromConfig(cfg),
		SSM:        ssm.NewFromConfig(cfg),
		ZonalShift: arczonalshift.NewFromConfig(cfg),
	}, nil
}
