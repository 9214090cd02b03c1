import CloakroomBuild
import Foundation

/// Controls core dumps; the process's memory contains tokens.
enum CoreDumps {
    /// Disables core dumps permanently, and access to the process's memory by other processes of the user. A failure is
    /// printed to standard error and does not end the process: a sandbox may forbid the call and set the limit itself.
    static func disable() {
        let error = cloakroom_disable_core_dumps()
        guard error != 0 else { return }
        try? FileHandle.standardError.write(
            contentsOf: Data("cloakroom: core dumps cannot be disabled: \(String(cString: strerror(error)))\n".utf8))
    }
}
