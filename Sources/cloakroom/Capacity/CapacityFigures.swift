import Foundation

/// What one operation costs.
///
/// A process that is idle when something arrives is woken up, and needs more CPU time for the same work: its caches are
/// cold, and it reads few requests at once.
struct OperationCost: Equatable, Sendable, Codable {
    /// Microseconds of CPU time of a gateway that is never idle.
    var gatewayMicroseconds: Double
    /// Microseconds of CPU time of a gateway that is idle before, at least ``gatewayMicroseconds``.
    var gatewayIdleMicroseconds: Double
    /// Microseconds of CPU time of a server that is never idle, or whose gateways never are: they send many commands at once.
    var serverMicroseconds: Double
    /// Microseconds of CPU time of a server that is idle before, as its gateways are, at least ``serverMicroseconds``.
    var serverIdleMicroseconds: Double
    /// Bytes that the server receives.
    var bytesToServer: Double
    /// Bytes that the server sends.
    var bytesFromServer: Double
}

/// The measured figures that ``CapacityModel`` uses: those of `Benchmarks/capacity.json`, written by
/// `Benchmarks/capacity.py`, or of another file that it wrote.
struct CapacityFigures: Equatable, Sendable, Codable {
    /// A request whose session is cached, forwarded over HTTP/1.1 without TLS, with small bodies.
    var request: OperationCost
    /// What a request costs more if its session is not cached, and was not cached before.
    var lookUp: OperationCost
    /// What a request costs more if its session has changed since it was cached: the cutoff of its account is known.
    var lookUpAgain: OperationCost
    /// What a request costs more if its session is one of a provider, whose record is larger, and not cached.
    var providerLookUp: OperationCost
    /// A use that is written.
    var touch: OperationCost
    /// What a request costs more if it refreshes the tokens.
    var refresh: OperationCost
    /// A sign-in with a password, with two calls to the API.
    var signIn: OperationCost
    /// A sign-out.
    var signOut: OperationCost
    /// A login at a provider.
    var login: OperationCost
    /// Resident memory of a gateway without sessions.
    var gatewayBytes: Double
    /// Memory of a gateway per cached session that was signed in to with a password.
    var gatewayBytesPerPasswordSession: Double
    /// The same for a session of a provider, with its ID token and claims.
    var gatewayBytesPerProviderSession: Double
    /// Memory of a server without sessions.
    var serverBytes: Double
    /// Resident memory of a server per session, that was signed in to with a password.
    var serverBytesPerPasswordSession: Double
    /// The same for a session of a provider.
    var serverBytesPerProviderSession: Double
    /// Memory of a server per key that a gateway has read, of which it reports changes.
    var serverBytesPerTrackedKey: Double
    /// Memory of a server for such a key per further gateway.
    var serverBytesPerFurtherGateway: Double

    func gatewayBytesPerSession(_ signIn: CapacitySignIn) -> Double {
        signIn == .password ? gatewayBytesPerPasswordSession : gatewayBytesPerProviderSession
    }

    func serverBytesPerSession(_ signIn: CapacitySignIn) -> Double {
        signIn == .password ? serverBytesPerPasswordSession : serverBytesPerProviderSession
    }
}

extension CapacityFigures {
    private struct File: Decodable {
        var model: CapacityFigures
    }

    /// Reads a file that `Benchmarks/capacity.py` wrote.
    /// - Returns: `nil` if it is not one, or a figure is negative or above 10^12, with which results would overflow, or an
    ///   operation costs an idle process less than a busy one.
    init?(file: Data) {
        guard let decoded = try? JSONDecoder().decode(File.self, from: file), decoded.model.isPlausible else {
            return nil
        }
        self = decoded.model
    }

    private var isPlausible: Bool {
        let costs = [request, lookUp, lookUpAgain, providerLookUp, touch, refresh, signIn, signOut, login]
        let sizes = [
            gatewayBytes, gatewayBytesPerPasswordSession, gatewayBytesPerProviderSession, serverBytes,
            serverBytesPerPasswordSession, serverBytesPerProviderSession, serverBytesPerTrackedKey,
            serverBytesPerFurtherGateway,
        ]
        let figures = costs.flatMap {
            [
                $0.gatewayMicroseconds, $0.gatewayIdleMicroseconds, $0.serverMicroseconds, $0.serverIdleMicroseconds,
                $0.bytesToServer, $0.bytesFromServer,
            ]
        }
        return (sizes + figures).allSatisfy { (0...1e12).contains($0) }
            && costs.allSatisfy {
                $0.gatewayMicroseconds <= $0.gatewayIdleMicroseconds
                    && $0.serverMicroseconds <= $0.serverIdleMicroseconds
            }
    }
}
