# The queue of interruptions, and the rules that fill it.

locals {
  rules = {
    ScheduledChange                 = { source = ["aws.health"], detail-type = ["AWS Health Event"] }
    SpotInterruption                = { source = ["aws.ec2"], detail-type = ["EC2 Spot Instance Interruption Warning"] }
    Rebalance                       = { source = ["aws.ec2"], detail-type = ["EC2 Instance Rebalance Recommendation"] }
    InstanceStateChange             = { source = ["aws.ec2"], detail-type = ["EC2 Instance State-change Notification"] }
    CapacityReservationInterruption = { source = ["aws.ec2"], detail-type = ["EC2 Capacity Reservation Instance Interruption Warning"] }
  }
}

resource "aws_sqs_queue" "interruption" {
  name                      = var.cluster_name
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
  tags                      = var.tags
}

resource "aws_sqs_queue_policy" "interruption" {
  queue_url = aws_sqs_queue.interruption.url
  policy    = templatefile("${path.module}/policies/queue.json", { queue_arn = aws_sqs_queue.interruption.arn })
}

resource "aws_cloudwatch_event_rule" "interruption" {
  for_each = local.rules

  # A prefix has 38 characters at most.
  name_prefix   = substr("${each.key}-", 0, 38)
  description   = "${each.key} of instances, for the queue of cluster ${var.cluster_name}"
  event_pattern = jsonencode(each.value)
  tags          = var.tags
}

resource "aws_cloudwatch_event_target" "interruption" {
  for_each = local.rules

  rule      = aws_cloudwatch_event_rule.interruption[each.key].name
  target_id = "KarpenterInterruptionQueueTarget"
  arn       = aws_sqs_queue.interruption.arn
}
