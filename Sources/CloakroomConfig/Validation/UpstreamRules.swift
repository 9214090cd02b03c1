public import CloakroomCore
import CloakroomWire

/// Validates routes against the protocol of their upstreams.
enum RouteProtocolRules {
    static func check(_ routes: [RouteSection], upstreams: UpstreamsSection, listeners: [ListenerSection]) {
        for route in routes {
            guard let index = route.upstream else { continue }
            let upstream = upstreams.configurations[index]
            let key = upstreams.scopes[index].path + ["protocol"]
            if route.options.allowsWebSocket, upstream.protocolVersion == .h2c {
                route.scope.report(
                    "conflicts with protocol h2c of upstream \(upstream.name.quoted):"
                        + " WebSockets need HTTP/1.1",
                    "write \(key.joined(separator: ".")): http1, or name another upstream", at: "websocket",
                    becauseOf: [key])
            }
            guard route.options.grpc else { continue }
            upstream.checkGRPC(in: route.scope, upstream: upstreams.scopes[index].path)
            checkCalls(route, listeners)
        }
    }

    private static func checkCalls(_ route: RouteSection, _ listeners: [ListenerSection]) {
        if let methods = route.methods, !methods.contains("POST") {
            route.scope.report("a gRPC call is a POST", "add POST to methods", at: "grpc")
        }
        if route.options.allowsWebSocket {
            route.scope.report("conflicts with websocket", "keep one of the two", at: "grpc")
        }
        if !listeners.isEmpty, listeners.allSatisfy({ !$0.http2 }) {
            route.scope.warn(
                "clients need HTTP/2 for gRPC, but no listener supports it", "write listeners.0.http2: true", at: "grpc"
            )
        }
    }
}

extension UpstreamConfiguration {
    /// gRPC calls need a protocol that uses HTTP/2 for all targets.
    /// - Parameters:
    ///   - scope: Has the key `grpc` that requires the calls.
    ///   - upstream: The path of the upstream.
    func checkGRPC(in scope: ConfigScope, upstream: [String]) {
        let key = upstream + ["protocol"]
        let setting = key.joined(separator: ".")
        let clearText = targets.first { $0.scheme == .http }
        if !protocolVersion.allowsHTTP2 {
            let version = clearText == nil ? "http2" : "h2c"
            scope.report(
                "requires HTTP/2, but upstream \(name.quoted) has protocol http1", "write \(setting): \(version)",
                at: "grpc", becauseOf: [key])
        } else if protocolVersion == .auto, let clearText {
            scope.report(
                "requires HTTP/2, but protocol auto uses HTTP/1.1 for target \(clearText)",
                "write \(setting): h2c, or https:// targets", at: "grpc", becauseOf: [key, upstream + ["targets"]])
        }
    }
}

/// Settings that are valid, but with which the gateway cannot work as configured.
///
/// Separate from parsing, because the number of event loops can depend on the machine.
public enum UpstreamCapacityRules {
    /// Warnings about pools and timeouts.
    /// - Parameter loops: The number of event loops, at least 1.
    public static func findings(in configuration: GatewayConfiguration, loops: Int) -> [ConfigFinding] {
        configuration.upstreams.flatMap { upstream in
            [connections(upstream, loops), attemptTimeout(upstream, configuration)].compactMap(\.self)
        }
    }

    /// Each loop keeps at least one connection to each target, and half of the connections is common to all loops.
    private static func connections(_ upstream: UpstreamConfiguration, _ loops: Int) -> ConfigFinding? {
        let (wanted, isTooLarge) = upstream.targets.count.multipliedReportingOverflow(by: max(loops, 1))
        guard isTooLarge || wanted > upstream.pool.maxConnections / 2 else { return nil }
        return ConfigFinding(
            key: ["upstreams", upstream.name, "pool", "maxConnections"],
            message: "\(upstream.pool.maxConnections) connections are few for \(upstream.targets.count)"
                + " \(upstream.targets.count == 1 ? "target" : "targets") and \(loops)"
                + " \(loops == 1 ? "event loop" : "event loops"): connections are rarely reused",
            suggestion: "raise it to \(wanted * 2) or more, or lower eventLoops", isWarning: true)
    }

    /// The timeout of an attempt has to be shorter than that of all attempts.
    private static func attemptTimeout(
        _ upstream: UpstreamConfiguration, _ configuration: GatewayConfiguration
    ) -> ConfigFinding? {
        let timeout = upstream.retry.attemptTimeout
        guard timeout > .zero, upstream.retry.isEnabled else { return nil }
        let index = configuration.upstreams.firstIndex { $0.name == upstream.name }
        let routes = configuration.routes.filter { $0.upstream == index }
        let longest = routes.map { $0.responseHeadTimeout ?? configuration.timeouts.responseHead }.max()
        guard let longest, timeout >= longest else { return nil }
        return ConfigFinding(
            key: ["upstreams", upstream.name, "retry", "attemptTimeout"],
            message: "has no effect: the response head of all attempts has to arrive within"
                + " \(ValueFormat<Duration>.rendered(longest))",
            suggestion: "shorten it, or raise responseHeadTimeout", isWarning: true)
    }
}
