import CloakroomCore
import Foundation
import TestSupport
import Testing

/// A real proxy in front of a gateway, with its file in `deploy/forward-auth` as the configuration.
struct FrontProxy: Sendable {
    typealias Kind = ForwardAuthConfiguration.Proxy

    /// The ports behind it.
    struct Ports: Sendable {
        /// The gateway's ordinary listener.
        var accounts: Int
        /// The gateway's listener with `forwardAuth`.
        var decisions: Int
        var api: Int
    }

    /// The host of the files.
    static let host = "app.example.com"

    /// The beginning of the configuration of a gateway that decides for a proxy: listeners, and cookies for http.
    static func listeners(_ kind: Kind, _ ports: Ports) -> String {
        """
        listeners:
          - { address: "127.0.0.1:\(ports.accounts)" }
          - address: 127.0.0.1:\(ports.decisions)
            forwardAuth: { proxy: \(kind.rawValue), sources: [127.0.0.1], hosts: [\(host)] }
        admin: { address: "127.0.0.1:0" }
        trustedProxies: [127.0.0.1]
        session: { cookie: { secure: false } }

        """
    }

    let kind: Kind
    let port: Int
    private let curl: Curl

    /// Runs a proxy while `body` runs.
    /// - Parameter change: Changes each of its files.
    static func running<R>(
        _ kind: Kind, _ ports: Ports, change: (String) -> String = { $0 }, body: (FrontProxy) async throws -> R
    ) async throws -> R {
        let folder = try TemporaryDirectory()
        let front = try FreePort.next()
        let numbers = [(8_000, front), (8_080, ports.accounts), (8_081, ports.decisions), (9_000, ports.api)]
        for name in files(of: kind) {
            let source = Executables.packageDirectory.appending(path: "deploy/forward-auth/\(name)")
            var text = try String(contentsOf: source, encoding: .utf8)
            for (number, port) in numbers {
                text = text.replacing(":\(number)", with: ":\(port)")
                    .replacing("port_value: \(number)", with: "port_value: \(port)")
            }
            // The files have the name of a claim. The sessions of these tests have none, and only routes can set another field.
            for (claim, field) in [
                ("X-User-Id", "X-Account-Id"), ("x-user-id", "x-account-id"), ("x_user_id", "x_account_id"),
            ] {
                text = text.replacing(claim, with: field)
            }
            try folder.write(change(text), to: name)
        }
        let (program, arguments) = try command(of: kind, in: folder)
        return try await ChildProgram.running(
            program, arguments, directory: folder.url, environment: ["HOME": folder.path]
        ) { program in
            let proxy = FrontProxy(kind: kind, port: front, curl: try Curl())
            // Traefik accepts connections before it has read its routes.
            try await eventually("\(kind) forwards requests") {
                try require(program.isRunning, "\(program.output)\(program.errors)")
                guard await !RawPeer.isRejected(port: front) else { return false }
                return try await proxy.ask("GET", "/episodes").status == 200
            }
            return try await body(proxy)
        }
    }

    private static func files(of kind: Kind) -> [String] {
        switch kind {
        case .nginx: ["nginx.conf"]
        case .caddy: ["Caddyfile"]
        case .envoy: ["envoy.yaml"]
        case .traefik: ["traefik.yaml", "traefik-routes.yaml"]
        }
    }

    private static func command(of kind: Kind, in folder: TemporaryDirectory) throws -> (URL, [String]) {
        func installed(_ name: String) throws -> URL {
            try Executables.onPath(name, package: "the packages of Tests/requirements.txt")
        }
        switch kind {
        case .nginx:
            let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map {
                "\($0)_temp_path \(folder.path)/\($0);"
            }
            try folder.write(
                """
                daemon off;
                master_process off;
                pid \(folder.path)/pid;
                error_log stderr;
                events {}
                http { access_log off; \(paths.joined(separator: " ")) include \(folder.path)/nginx.conf; }

                """, to: "main.conf")
            let nginx = try Executables.onPath("nginx", package: "nginx-light")
            return (nginx, ["-p", folder.path, "-c", folder.path(of: "main.conf")])
        case .caddy:
            return (
                try installed("caddy"), ["run", "--adapter", "caddyfile", "--config", folder.path(of: "Caddyfile")]
            )
        case .envoy:
            let options = ["--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"]
            return (try installed("envoy"), ["-c", folder.path(of: "envoy.yaml")] + options)
        case .traefik: return (try installed("traefik"), ["--configFile=\(folder.path(of: "traefik.yaml"))"])
        }
    }

    /// Sends a request as it is written.
    /// - Parameter limit: How many seconds the client waits.
    func ask(
        _ method: String, _ target: String, _ fields: [String] = [], host: String = FrontProxy.host,
        body: String? = nil, within limit: Int = 60
    ) async throws -> TestResponse {
        var arguments = ["--max-time", "\(limit)", "-s", "-i", "--path-as-is", "-X", method, "-H", "Host: \(host)"]
        for field in fields { arguments += ["-H", field] }
        if let body { arguments += ["--data-binary", body] }
        if target.hasPrefix("/") {
            arguments.append("http://127.0.0.1:\(port)\(target)")
        } else {
            arguments += ["--request-target", target, "http://127.0.0.1:\(port)"]
        }
        let result = try await curl.run(arguments)
        // A proxy may close the connection in place of a response.
        guard !result.output.isEmpty else { return TestResponse(status: 0, fields: [], body: "") }
        return try TestResponse(printed: result.output)
    }
}
