# What Tenon, a node autoscaler that speaks Karpenter's API, needs in an account for one EKS cluster. The policies are the
# files in policies/; the CloudFormation template has the same.

data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  node_role_arn = var.create_node_role ? aws_iam_role.node[0].arn : var.node_role_arn

  # Whether and how often something is made must not depend on what is known only after something else is made: hence the
  # names.
  node_policies = merge({
    for name in ["AmazonEKS_CNI_Policy", "AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore"] :
    name => "arn:${data.aws_partition.current.partition}:iam::aws:policy/${name}"
  }, var.node_policy_arns)

  # What the files in policies/ leave open.
  values = {
    account         = data.aws_caller_identity.current.account_id
    cluster         = var.cluster_name
    dns_suffix      = data.aws_partition.current.dns_suffix
    namespace       = var.namespace
    node_role_arn   = local.node_role_arn
    oidc_issuer     = trimprefix(var.oidc_issuer, "https://")
    partition       = data.aws_partition.current.partition
    queue_arn       = aws_sqs_queue.interruption.arn
    region          = data.aws_region.current.id
    service_account = var.service_account
  }

  # By the names that Karpenter's CloudFormation template gives them.
  policies = {
    NodeLifecycle     = "node-lifecycle"
    IAMIntegration    = "iam-integration"
    EKSIntegration    = "eks-integration"
    Interruption      = "interruption"
    ZonalShift        = "zonal-shift"
    ResourceDiscovery = "resource-discovery"
  }
}

resource "aws_iam_policy" "controller" {
  for_each = local.policies

  name   = "KarpenterController${each.key}Policy-${var.cluster_name}"
  policy = templatefile("${path.module}/policies/${each.value}.json", local.values)
  tags   = var.tags

  lifecycle {
    precondition {
      condition     = var.create_node_role || var.node_role_arn != ""
      error_message = "Without create_node_role, node_role_arn has to name the role of the machines."
    }
  }
}

resource "aws_iam_role" "controller" {
  count = var.controller_role == "None" ? 0 : 1

  name                 = "${var.cluster_name}-karpenter"
  assume_role_policy   = templatefile("${path.module}/policies/${var.controller_role == "IRSA" ? "trust-irsa" : "trust-pod-identity"}.json", local.values)
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags

  lifecycle {
    precondition {
      condition     = var.controller_role != "IRSA" || var.oidc_issuer != ""
      error_message = "controller_role IRSA needs oidc_issuer, the cluster's OIDC issuer."
    }
  }
}

resource "aws_iam_role_policy_attachment" "controller" {
  for_each = var.controller_role == "None" ? {} : local.policies

  role       = aws_iam_role.controller[0].name
  policy_arn = aws_iam_policy.controller[each.key].arn
}

resource "aws_eks_pod_identity_association" "controller" {
  count = var.controller_role == "PodIdentity" ? 1 : 0

  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.controller[0].arn
  tags            = var.tags
}

resource "aws_iam_role" "node" {
  count = var.create_node_role ? 1 : 0

  name                 = "KarpenterNodeRole-${var.cluster_name}"
  assume_role_policy   = templatefile("${path.module}/policies/trust-node.json", { dns_suffix = data.aws_partition.current.dns_suffix })
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = var.create_node_role ? local.node_policies : {}

  role       = aws_iam_role.node[0].name
  policy_arn = each.value
}

resource "aws_eks_access_entry" "node" {
  count = var.create_access_entry ? 1 : 0

  cluster_name  = var.cluster_name
  principal_arn = local.node_role_arn
  type          = "EC2_LINUX"
  tags          = var.tags
}

resource "aws_iam_service_linked_role" "spot" {
  count = var.create_spot_role ? 1 : 0

  aws_service_name = "spot.amazonaws.com"
}
