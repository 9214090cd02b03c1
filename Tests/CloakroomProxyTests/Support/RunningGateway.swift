import CloakroomProxy
import CloakroomTelemetry
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import Synchronization
import TestSupport
import Testing
import Tracing

@testable import CloakroomCore

/// A gateway with a scripted upstream.
struct RunningGateway: Sendable {
    /// The port of its first listener.
    let port: Int
    /// The ports of all its listeners.
    let ports: [Int]
    let upstream: ScriptedUpstream
    let sessions: FakeSessions
    let telemetry: GatewayTelemetry
    /// The configuration at the start.
    let configuration: GatewayConfiguration
    let server: GatewayServer
    /// The time of its deadlines, if it advances in steps.
    fileprivate let time: SteppedTime?
    fileprivate let makeConfig: @Sendable (GatewayConfiguration, ConfigSnapshot?) throws -> ConfigSnapshot
    fileprivate let group: ServiceGroup
    fileprivate let running: Task<Void, any Error>

    /// A new connection of a client. With stepped time it is accepted, so that its deadlines begin at the current time,
    /// unless the gateway accepts nothing for a second.
    func client(receiveBuffer: Int? = nil) async throws -> RawPeer {
        let accepted = time == nil ? 0 : await server.acceptedConnections()
        let client = try await RawPeer.connect(port: port, receiveBuffer: receiveBuffer, allowsHalfClosure: false)
        if time != nil {
            try? await eventually("the connection is accepted", within: .seconds(1)) {
                await server.acceptedConnections() > accepted
            }
        }
        return client
    }

    /// A new connection of a client, on which a text is sent.
    func client(sending text: String) async throws -> RawPeer {
        let new = try await client()
        new.send(text)
        return new
    }

    /// Applies another configuration.
    /// - Parameter onRetired: Called once the last exchange with the old configuration has ended.
    func replace(
        onRetired: @escaping @Sendable () -> Void = {}, _ adjust: (inout GatewayConfiguration) throws -> Void
    ) async throws {
        var configuration = configuration
        try adjust(&configuration)
        try await server.apply(try makeConfig(configuration, server.currentConfig), onRetired: onRetired)
    }

    /// Advances the time of all deadlines. Everything that was sent before is handled at the old time. When this returns,
    /// what follows from the deadlines has been sent.
    /// - Parameter step: The time between two checks of the deadlines; `nil` for one check at the end.
    func advance(_ duration: Duration, inStepsOf step: Duration? = nil) async throws {
        let time = try require(self.time, "the gateway was set up without steppedTime()")
        await settle()
        var left = duration
        while left > .zero {
            let next = min(step ?? left, left)
            await server.advance(time, by: next)
            await settle()
            left -= next
        }
    }

    /// Returns when the event loops of the gateway and of its peers have handled what was sent before: each has checked
    /// its sockets several times.
    func settle() async {
        for _ in 0..<8 {
            for eventLoop in MultiThreadedEventLoopGroup.singleton.makeIterator() {
                try? await eventLoop.submit {}.get()
            }
            LoopbackBarrier.pass()
            await server.passThroughLoops()
        }
    }

    /// Begins a graceful shutdown, as SIGTERM does.
    func beginDrain() async {
        await group.triggerGracefulShutdown()
    }

    /// Waits until the gateway has stopped.
    func stopped() async throws {
        try await running.value
    }

    /// The current metrics in the exposition format.
    var metrics: String { String(decoding: telemetry.registry.exposition(), as: UTF8.self) }

    /// Waits for a line of the metrics: counters are updated shortly after the response.
    func metric(_ line: String) async throws {
        try await eventually("the metric \(line)") {
            metrics.split(separator: "\n").contains { $0 == line }
        }
    }
}

/// The parts of a gateway under test. Every part has a neutral default.
struct GatewaySetup: Sendable {
    var sessions = FakeSessions()
    var refresher: any TokenRefreshing = FakeRefresher()
    var exchanger: any TokenExchanging = NoTokenExchange()
    var tokens: (any AccessTokenVerifying)?
    var assertions: (any AssertionSigning)?
    /// Checks the proofs of sessions that are bound to a device; `nil` if none is.
    var devices: DeviceSessions?
    var endpoints: any AccountEndpointHandler = FakeEndpoints()
    var settings: TelemetrySettings
    var tracer: (any Tracer)?
    var resolver = HostResolver.system
    /// Whether the gateway shares addresses with a gateway that already listens on them.
    var sharesListeners = false
    /// Sockets of a service manager.
    var inherited = InheritedSockets()
    /// Whether the time of its deadlines advances only by ``RunningGateway/advance(_:inStepsOf:)``.
    var isTimeStepped = false
    /// What its rate limits count; by default as of one gateway.
    var rateLimits: @Sendable () -> RateLimitStorage = { RateLimitStorage() }
    var logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    /// The n-th upstream connection follows the n-th script.
    var scripts: [[ScriptedUpstream.Step]]
    /// The upstream's target, if it is not the scripted one.
    var upstreamPort: Int?
    /// Changes the configuration before it is used.
    var adjust: @Sendable (inout GatewayConfiguration) -> Void = { _ in }

    init(_ scripts: [ScriptedUpstream.Step]...) {
        self.scripts = scripts
        settings = TelemetrySettings()
        settings.isAccessLogEnabled = false
        settings.sampler = .alwaysOn.parentBased
    }

    /// Changes one part.
    func with<Value>(_ path: WritableKeyPath<GatewaySetup, Value>, _ value: Value) -> GatewaySetup {
        var setup = self
        setup[keyPath: path] = value
        return setup
    }

    /// From the start on, time advances only by ``RunningGateway/advance(_:inStepsOf:)``.
    func steppedTime() -> GatewaySetup { with(\.isTimeStepped, true) }

    /// Changes the configuration, after the changes that were requested before.
    func configuration(_ further: @escaping @Sendable (inout GatewayConfiguration) -> Void) -> GatewaySetup {
        with(\.adjust) { [adjust] in
            adjust(&$0)
            further(&$0)
        }
    }

    /// Runs the gateway for as long as `body` takes.
    func run<R: Sendable>(_ body: (RunningGateway) async throws -> R) async throws -> R {
        try await ScriptedUpstream.run(scripts) { upstreamPort, upstream in
            var configuration = try Self.configuration(upstreamPort: self.upstreamPort ?? upstreamPort)
            adjust(&configuration)
            let telemetry = GatewayTelemetry(settings: settings)
            defer { telemetry.shutdown() }
            let rateStorage = rateLimits()
            let makeConfig = { @Sendable (configuration: GatewayConfiguration, previous: ConfigSnapshot?) throws in
                try self.makeConfig(configuration, telemetry, rateStorage, previous: previous)
            }
            let box = PortBox()
            // Tests of many connections run side by side.
            _ = try FileDescriptorLimit.raised()
            let config = try makeConfig(configuration, nil)
            // Created after the configuration, which reads the system's time.
            let time = isTimeStepped ? SteppedTime() : nil
            let server = GatewayServer(
                config: config, sharesListeners: sharesListeners, inherited: inherited,
                time: time.map { LoopTime.stepped($0) } ?? .system, logger: logger
            ) {
                listeners in
                box.ports.withLock { $0 = listeners.map(\.address.port) }
            }
            let group = ServiceGroup(configuration: .init(services: [.init(service: server)], logger: logger))
            let running = Task {
                defer { box.ports.withLock { $0 = $0 ?? [] } }
                try await group.run()
            }
            let result = await Result {
                try await eventually("a listener") { box.ports.withLock { $0 != nil } }
                let ports = box.ports.withLock { $0 ?? [] }
                let gateway = RunningGateway(
                    port: ports.first ?? 0, ports: ports, upstream: upstream, sessions: sessions, telemetry: telemetry,
                    configuration: configuration, server: server, time: time, makeConfig: makeConfig, group: group,
                    running: running)
                if gateway.port == 0 { try await gateway.stopped() }
                return try await body(gateway)
            }
            running.cancel()
            _ = await running.result
            return try result.get()
        }
    }

    /// Runs the gateway with an access log.
    /// - Returns: The lines of the log, and all of its text.
    func logged(_ body: (RunningGateway) async throws -> Void) async throws -> (lines: [LogLine], text: String) {
        let pipe = try LinePipe()
        var setup = self
        setup.settings.isAccessLogEnabled = true
        setup.settings.logFileDescriptor = pipe.writeEnd
        do {
            try await setup.run(body)
        } catch {
            _ = await pipe.text()
            throw error
        }
        let text = await pipe.text()
        return (text.split(separator: "\n").compactMap { LogLine($0) }, text)
    }

    /// The configuration without a running gateway.
    func makeConfig() throws -> ConfigSnapshot {
        var configuration = try Self.configuration(upstreamPort: upstreamPort ?? 9)
        adjust(&configuration)
        return try makeConfig(configuration, GatewayTelemetry(settings: settings))
    }

    func makeConfig(
        _ configuration: GatewayConfiguration, _ telemetry: GatewayTelemetry,
        _ rateStorage: RateLimitStorage = RateLimitStorage(), previous: ConfigSnapshot? = nil
    ) throws -> ConfigSnapshot {
        try ConfigSnapshot(
            configuration: configuration, sessions: sessions, refresher: refresher, exchanger: exchanger,
            tokens: tokens, assertions: assertions, accountEndpoints: endpoints,
            telemetry: telemetry, tracer: tracer, logger: logger, resolver: resolver, rateStorage: rateStorage,
            devices: devices, previous: previous)
    }

    private final class PortBox: Sendable {
        let ports = Mutex<[Int]?>(nil)
    }

    /// Routes: one public, one with the API token, one that requires a session.
    private static func configuration(upstreamPort: Int) throws -> GatewayConfiguration {
        GatewayConfiguration(
            listeners: [ListenerConfiguration(address: HostAndPort(host: "127.0.0.1", port: 0))],
            upstreams: [
                UpstreamConfiguration(
                    name: "api",
                    targets: [UpstreamTargetConfiguration(HostAndPort(host: "127.0.0.1", port: upstreamPort))],
                    apiToken: APIToken(header: "X-API-TOKEN", value: Secret(Canary.apiToken)))
            ],
            routes: [
                Route(
                    name: "public", methods: ["GET", "POST", "PUT", "DELETE", "OPTIONS"],
                    pattern: try PathPattern("/public/*"), requiresAuthorization: false),
                Route(
                    name: "token", methods: ["GET", "POST"], pattern: try PathPattern("/token/*"),
                    requiresAuthorization: false, inject: [.apiToken]),
                Route(
                    name: "private", methods: ["GET", "POST"], pattern: try PathPattern("/private/*"),
                    requiresAuthorization: true, inject: [.apiToken, .bearer]),
            ],
            eventLoops: 1)
    }
}

/// Secrets that must not leak.
enum Canary {
    static let apiToken = "canary-api-token"
    static let accessToken = "canary-access-token"
}

/// Common responses of an upstream.
enum Reply {
    static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    static let noContent = "HTTP/1.1 204 No Content\r\n\r\n"
    static let eventStream =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
}

/// Common requests of a client.
enum Ask {
    /// The ticket of a session that every new ``FakeSessions`` has.
    static let ticket = FakeSessions.make().0
    /// The `Cookie` line of that session.
    static let cookie = FakeSessions.cookie(ticket)
    /// The value of that line.
    static let cookieValue = "__Host-cloakroom=\(ticket.cookieValue)"

    static func get(_ path: String = "/public/a", _ fields: String...) -> String { ask("GET", path, fields) }

    static func post(_ path: String = "/public/a", _ fields: String..., body: String = "") -> String {
        ask("POST", path, fields + ["Content-Length: \(body.utf8.count)"]) + body
    }

    /// A request with these fields, without a body.
    static func ask(_ method: String, _ path: String, _ fields: [String] = []) -> String {
        (["\(method) \(path) HTTP/1.1", "Host: gateway.test"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
    }
}
