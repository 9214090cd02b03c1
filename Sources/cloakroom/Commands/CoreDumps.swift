import CloakroomBuild
import Foundation

/// Core dumps of a process that holds tokens.
enum CoreDumps {
    /// Disables them for the rest of the process, and with them access to its memory by other processes of the user. A
    /// failure is reported on standard error and does not end the process: a sandbox may forbid the call and have set the
    /// limit itself.
    static func disable() {
        let error = cloakroom_disable_core_dumps()
        guard error != 0 else { return }
        try? FileHandle.standardError.write(
            contentsOf: Data("cloakroom: core dumps cannot be disabled: \(String(cString: strerror(error)))\n".utf8))
    }
}
