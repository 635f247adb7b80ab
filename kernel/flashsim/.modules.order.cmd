savedcmd_drivers/block/flashsim/modules.order := {  :; } > drivers/block/flashsim/modules.order
