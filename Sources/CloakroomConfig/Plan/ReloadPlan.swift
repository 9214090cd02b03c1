/// When a running gateway reads its configuration again. On SIGHUP it does in any case.
public struct ReloadPlan: Sendable, Equatable {
    /// Whether the file, and the files of secrets that it names, are looked at from time to time.
    public var isWatching: Bool
    /// How much time passes between two looks, 100 ms to 1 day.
    public var interval: Duration

    /// Makes a plan.
    public init(isWatching: Bool = true, interval: Duration = .seconds(10)) {
        self.isWatching = isWatching
        self.interval = interval
    }
}

extension ReloadPlan {
    /// `reload`.
    ///
    /// - `watch`: default `true`.
    /// - `interval`: 100ms to 1d; default 10s.
    init(from scope: ConfigScope) {
        let defaults = ReloadPlan()
        self.init(
            isWatching: scope.value("watch", as: .flag, default: defaults.isWatching),
            interval: scope.value(
                "interval", as: .duration(.milliseconds(100) ... .seconds(86_400)), default: defaults.interval))
    }
}
