/* A session's net, for commands that look into it. */
#ifndef CR_INFER_SESSION_H
#define CR_INFER_SESSION_H

#include "infer/model.h"

/* The net that the session runs and owns. crema_session_blob may replace it. */
crema_net *cr_session_net(crema_session *session);

#endif
