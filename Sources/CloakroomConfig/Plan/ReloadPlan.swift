/// When a running gateway reads its configuration again. On SIGHUP it does in any case.
public struct ReloadConfiguration: Sendable, Equatable {
    /// Whether the file, and the files of secrets that it names, are looked at from time to time.
    public var watchesFiles: Bool
    /// How much time passes between two looks, 100 ms to 1 day.
    public var interval: Duration

    /// Makes a plan.
    public init(watchesFiles: Bool = true, interval: Duration = .seconds(10)) {
        self.watchesFiles = watchesFiles
        self.interval = interval
    }
}

extension ReloadConfiguration {
    /// `reload`.
    ///
    /// - `watch`: default `true`.
    /// - `interval`: 100ms to 1d; default 10s.
    init(from scope: ConfigScope) {
        let defaults = ReloadConfiguration()
        self.init(
            watchesFiles: scope.value("watch", as: .flag, default: defaults.watchesFiles),
            interval: scope.value(
                "interval", as: .duration(.milliseconds(100) ... .seconds(86_400)), default: defaults.interval))
    }
}
