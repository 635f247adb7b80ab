// SPDX-License-Identifier: GPL-2.0-only
/*
 * flashsim: the cost of an inference.
 *
 * Computing takes no virtual time. An experiment therefore writes the time of one inference of
 * LinnOS on real hardware to the parameter charge_ns. A thread that submits a read with a
 * prediction, or queries a prediction, waits for this time.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <trace/events/linnos.h>

static uint charge_ns;

static void charge_inference(void *data, dev_t dev, u64 sector, u32 nr_sector,
			     bool revoked, u8 reason,
			     const struct linnos_prediction *found)
{
	if (reason != LINNOS_NO_MODEL)
		ndelay(READ_ONCE(charge_ns));
}

static void charge_query(void *data, dev_t dev, u32 pending, u8 expected,
			 u32 latency_us)
{
	if (expected != BLK_LINNOS_UNKNOWN)
		ndelay(READ_ONCE(charge_ns));
}

/* Context: the kernel serialises writes to parameters. */
static int charge_ns_set(const char *text, const struct kernel_param *param)
{
	uint before = charge_ns;
	int ret = param_set_uint(text, param);

	if (ret)
		return ret;
	if (charge_ns && !before) {
		ret = register_trace_linnos_decision(charge_inference, NULL);
		return ret ?: register_trace_linnos_expected(charge_query, NULL);
	}
	if (!charge_ns && before) {
		unregister_trace_linnos_decision(charge_inference, NULL);
		unregister_trace_linnos_expected(charge_query, NULL);
	}
	return 0;
}

static const struct kernel_param_ops charge_ns_ops = {
	.set = charge_ns_set,
	.get = param_get_uint,
};

module_param_cb(charge_ns, &charge_ns_ops, &charge_ns, 0644);
MODULE_PARM_DESC(charge_ns, "virtual time that one LinnOS inference takes");
