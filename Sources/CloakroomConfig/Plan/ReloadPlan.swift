/// When a running gateway reloads its configuration. SIGHUP always triggers a reload.
public struct ReloadConfiguration: Sendable, Equatable {
    /// Whether the configuration file and its secret files are polled for changes.
    public var watchesFiles: Bool
    /// The polling interval, 100 ms to 1 day.
    public var interval: Duration

    /// Creates the configuration.
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
