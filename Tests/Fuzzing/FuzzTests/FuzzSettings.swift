import Foundation
import FuzzTargets

/// What the environment says about how to fuzz.
struct FuzzSettings {
    /// How long each target takes; `nil` for as long as it usually does.
    private let duration: Duration?
    let seed: UInt64
    /// One input to try.
    let input: (target: FuzzTarget, bytes: [UInt8])?

    static let current = FuzzSettings(ProcessInfo.processInfo.environment)

    private init(_ environment: [String: String]) {
        duration = environment["CLOAKROOM_FUZZ_SECONDS"].flatMap(Double.init).map { .seconds($0) }
        seed = environment["CLOAKROOM_FUZZ_SEED"].flatMap { UInt64($0) } ?? 1
        let parts = environment["CLOAKROOM_FUZZ_INPUT"]?.split(separator: ":", maxSplits: 1) ?? []
        guard parts.count == 2, let target = FuzzTarget.named(String(parts[0])),
            let bytes = Data(base64Encoded: String(parts[1]))
        else {
            input = nil
            return
        }
        input = (target, Array(bytes))
    }

    /// How long a target takes.
    func duration(of target: FuzzTarget) -> Duration {
        duration ?? .seconds(target.usualSeconds)
    }

    /// The command that tries an input again.
    static func replay(_ target: FuzzTarget, _ bytes: [UInt8]) -> String {
        "CLOAKROOM_FUZZ_INPUT=\(target.name):\(Data(bytes).base64EncodedString()) swift test --filter FuzzTests/replay"
    }
}
