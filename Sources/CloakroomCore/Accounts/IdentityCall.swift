import Synchronization

/// The server of an identity call, as the configuration names it.
public enum IdentityCallSource: Sendable, Hashable {
    /// The upstream that signs users in.
    case upstream(String)
    /// An OpenID Provider: the name of the identity.
    case identity(String)
}

/// One attempt of an identity call to one target, for metrics. Contains no secret.
public struct IdentityCallAttempt: Sendable, Hashable {
    /// The call.
    public var call: TokenClientError.Operation
    /// The server.
    public var source: IdentityCallSource
    /// The HTTP method.
    public var method: String
    /// Host name or address of the target, or the path of a socket.
    public var serverAddress: String
    /// The port; `nil` for a socket.
    public var serverPort: Int?
    /// The status; `nil` without a response.
    public var status: Int?
    /// The kind of failure, a constant word; `nil` with a response.
    public var errorType: String?
    /// The duration of the attempt, in nanoseconds.
    public var nanoseconds: UInt64

    package init(
        call: TokenClientError.Operation, source: IdentityCallSource, method: String, serverAddress: String,
        serverPort: Int?, status: Int? = nil, errorType: String? = nil, nanoseconds: UInt64
    ) {
        self.call = call
        self.source = source
        self.method = method
        self.serverAddress = serverAddress
        self.serverPort = serverPort
        self.status = status
        self.errorType = errorType
        self.nanoseconds = nanoseconds
    }
}

/// An identity call without a usable result, for the log and the status page. Contains no secret and no value that the
/// server sent, only names of members.
public struct IdentityCallFailure: Sendable, Equatable {
    /// When the call ended, in wall-clock time. Set by the ``IdentityCallObserver``.
    public var time = WallTime(seconds: 0)
    /// The call.
    public var call: TokenClientError.Operation
    /// The server.
    public var source: IdentityCallSource
    /// The HTTP method.
    public var method: String
    /// Host and port of the last target, or the path of a socket; empty if no target was tried.
    public var server: String
    /// The path without a query.
    public var path: String
    /// The status; `nil` without a response.
    public var status: Int?
    /// What is wrong.
    public var defect: Defect
    /// The duration of the call over all targets, in nanoseconds.
    public var nanoseconds: UInt64

    /// What is wrong with a call or its response.
    public struct Defect: Sendable, Equatable {
        /// A constant word.
        public var reason: String
        /// The configuration key whose member is not usable, such as `signIn.accessToken`; `nil` if there is none.
        public var key: String?
        /// The expected member.
        public var expected: String?
        /// The names of the members that the response has at that place, from ``names(in:along:)``.
        public var found: [String]

        package init(_ reason: String, key: String? = nil, expected: String? = nil, found: [String] = []) {
            self.reason = reason
            self.key = key
            self.expected = expected
            self.found = found
        }
    }

    package init(
        call: TokenClientError.Operation, source: IdentityCallSource, method: String, server: String, path: String,
        status: Int? = nil, defect: Defect, nanoseconds: UInt64
    ) {
        self.call = call
        self.source = source
        self.method = method
        self.server = server
        self.path = path
        self.status = status
        self.defect = defect
        self.nanoseconds = nanoseconds
    }
}

extension IdentityCallFailure.Defect {
    /// The maximum number of listed names.
    public static let maxNames = 16
    /// The maximum length of a listed name, in bytes. Longer ones, which might be a token, are replaced by their length,
    /// and so are names with four digits or more, which might be an identifier of a session, and e-mail addresses.
    public static let maxNameLength = 40

    /// The names of the members along a path of member names joined by dots, of the last object that exists: if
    /// `data.token` is missing, `[data.id, data.jwt]`, or `[id, user]` if there is no `data` either. Sorted, and
    /// bounded in number and length; characters other than letters, digits and `_ - . : @` are replaced by `?`.
    package static func names(in document: JSONValue?, along path: String) -> [String] {
        guard case .object(var members)? = document else { return [] }
        var prefix = ""
        for name in path.split(separator: ".", omittingEmptySubsequences: false) {
            guard case .object(let inner)? = members[JSONMemberName(String(name))] else { break }
            members = inner
            prefix += name + "."
        }
        let names = members.keys.map { prefix + escaped($0.text) }.sorted()
        guard names.count > maxNames else { return names }
        return names.prefix(maxNames) + ["(\(names.count - maxNames) more)"]
    }

    private static func escaped(_ name: String) -> String {
        let digits = name.utf8.count { (0x30...0x39).contains($0) }
        // A leading one is common: JSON-LD.
        let isAddress = name.dropFirst().utf8.contains(0x40)
        guard name.utf8.count <= maxNameLength, digits < 4, !isAddress else { return "(\(name.utf8.count) bytes)" }
        return String(
            name.map { character in
                guard character.isASCII else { return "?" }
                return character.isLetter || character.isNumber || "_-.:@".contains(character) ? character : "?"
            })
    }
}

/// Receives the attempts and failures of identity calls. Must not block.
public protocol IdentityCallObserver: Sendable {
    /// An attempt ended, successful or not.
    func identityCallAttempted(_ attempt: IdentityCallAttempt)
    /// A call had no usable result. Not called if the server rejected the credential of a user.
    func identityCallFailed(_ failure: IdentityCallFailure)
}

/// The time that the identity calls for one request take. It belongs to the upstream, not to the gateway.
public final class IdentityCallTime: Sendable {
    /// The time of the request for which this task runs; `nil` outside of requests.
    @TaskLocal public static var current: IdentityCallTime?

    private let total = Atomic<UInt64>(0)

    /// Creates a time of zero.
    public init() {}

    /// The sum of the calls, in nanoseconds.
    public var nanoseconds: UInt64 { total.load(ordering: .relaxed) }

    /// Adds a call.
    public func add(nanoseconds: UInt64) { total.wrappingAdd(nanoseconds, ordering: .relaxed) }
}
