output "node_role_name" {
  description = "For spec.role of an EC2NodeClass: the role's name without its path."
  value       = element(split("/", local.node_role_arn), length(split("/", local.node_role_arn)) - 1)
}

output "node_role_arn" {
  description = "For the cluster's list of who may join it."
  value       = local.node_role_arn
}

output "interruption_queue_name" {
  description = "For settings.interruptionQueue of the chart."
  value       = aws_sqs_queue.interruption.name
}

output "controller_role_arn" {
  description = "For IRSA, the annotation eks.amazonaws.com/role-arn of the chart's service account."
  value       = one(aws_iam_role.controller[*].arn)
}

output "policy_arns" {
  description = "The controller's policies, by name, for a role of your own."
  value       = { for name, policy in aws_iam_policy.controller : name => policy.arn }
}
