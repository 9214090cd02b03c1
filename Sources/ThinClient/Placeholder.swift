/// What the gateway can be asked for.
struct Placeholder {}
